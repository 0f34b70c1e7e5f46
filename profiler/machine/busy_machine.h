// Tells whether other programs slow this machine down at the moment.
//
// Predictions hold for a machine that does nothing else (known_machine.h measures without the time that other
// programs take). On a busy machine, whoever predicts should say so.
#pragma once

#include <string>

#include "engine/placement/machine_profile.h"

namespace hearth {

/// Measures for a fraction of a second how fast this machine reads its memory. Returns the share of the
/// profile's rate that is reached, at most 1; or 1 if memory is too short to measure. machine: the profile of
/// this machine.
double available_share(const MachineProfile& machine);

/// Returns a sentence for a share below four fifths, otherwise an empty text. Example: "other programs use
/// this machine: its memory is read at 31 of 70 GB/s now, so expect about 44 % of these speeds". rate: bytes
/// per second, of the profile.
std::string busy_sentence(double share, double rate);

}  // namespace hearth
