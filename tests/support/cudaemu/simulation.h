// The simulated device (kernels/cuda/ops/simulated_device.h): the emulator's calls in virtual time.
//
// Work is executed, if at all, when it is put into a stream, and its end time is computed at once. So a
// stream is represented by the time at which all its work ends. This is possible because all work that it
// waits for was put into a stream earlier. Threads take turns (kernels/base/virtual_time.h), so nothing here
// is locked.
#pragma once

#include "kernels/cuda/ops/simulated_device.h"
#include "tests/support/cudaemu/operation.h"

namespace hearth::cudaemu {

class Stream;

/// Returns whether the device is simulated and virtual time has not ended.
bool is_simulated();

/// The time of the calling thread.
double simulated_now();
/// Makes the calling thread wait until the device has reached this time.
void wait_simulated_until(double time);

/// The time at which a mark after the stream's work is reached; 0 if nothing is simulated.
double simulated_end_of(const Stream& stream);

/// The kinds of things that a runtime call enqueues.
enum class SimulatedCall { kWork, kGraph, kEvent };
/// Advances the calling thread by the time that the call takes.
void call_simulated(SimulatedCall call);

/// Schedules the operation after the stream's work.
void simulate(const Operation& operation, cudaStream_t stream);

/// The implementation of kernels/cuda/ops/simulated_device.h.
void start_simulation(const cuda::SimulatedSpeeds& speeds, Trace* trace);
const cuda::SimulatedUse& simulation_use();
double simulation_kernels_between(double begin, double end);
void reset_simulation();
cuda::SimulatedResults& simulation_results();
/// Waits until the host sees the last number stored at this address.
void wait_for_release(const void* word);

/// Stores a number for the host from a running kernel.
void note_release(const void* word);

}  // namespace hearth::cudaemu
