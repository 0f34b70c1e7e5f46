// Tells whether other programs slow this machine down at the moment.
//
// Predictions hold for a machine that does nothing else (known_machine.h measures without the time that other
// programs take). On a busy machine, every program that predicts or measures speeds says so.
#pragma once

#include <string>

#include "engine/placement/machine_profile.h"

namespace hearth {

/// Measures for a fraction of a second how fast this machine reads its memory. Returns the share of the
/// profile's rate that is reached, at most 1; or 1 if memory is too short to measure. machine: the profile of
/// this machine.
double available_share(const MachineProfile& machine);

/// Returns a sentence for a share below four fifths, otherwise an empty text. Example: "other programs use
/// this machine: its memory is read at 31 of 70 GB/s now". rate: bytes per second, without other programs.
std::string busy_sentence(double share, double rate);

/// Returns the sentence for somebody who reads predicted speeds; it ends with "so expect about 44 % of these
/// speeds". Empty like busy_sentence().
std::string busy_prediction(double share, double rate);

/// Returns the sentence for somebody who reads measured speeds; it ends with "so these speeds are lower than
/// those of a quiet machine". Empty like busy_sentence().
std::string busy_measurement(double share, double rate);

}  // namespace hearth
