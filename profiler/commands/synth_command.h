// `hearth-profiler synth`: its options, its checks and its run.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace hearth {

/// Adds the subcommand to `app`. The result, called once the arguments are parsed and the subcommand is
/// chosen, does the work and returns the program's exit code; throws std::runtime_error with a sentence for
/// the user. Must not outlive `app`.
std::function<int()> add_synth_command(CLI::App& app);

}  // namespace hearth
