// `hearth-profiler plan`: its options, its checks and its run.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace hearth {

/// As add_calibrate_command (profiler/commands/calibrate_command.h).
std::function<int()> add_plan_command(CLI::App& app);

}  // namespace hearth
