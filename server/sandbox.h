// --sandbox: the rights that hearthd gives up, and when.
//
// Without a GPU, hearthd gives up access to other files and new connections (Landlock) and system calls
// (seccomp) before the first thread starts. With a GPU, it gives up only system calls, when the model is
// loaded. Files are then not confined, because the GPU driver opens devices and files, and starts a program
// that creates them, at unpredictable times.
//
// Daemon calls these functions on main's thread.
#pragma once

#include "config/options.h"
#include "server/serving_model.h"

namespace hearth {

class Sandbox {
 public:
  /// options and cache must outlive this object. cache: the folder to which activity is written.
  Sandbox(const Options& options, const CacheFolder& cache);

  /// Call after the port is bound and before threads start. If a right cannot be given up, throws StartError
  /// with --sandbox on, and logs a warning with --sandbox auto.
  void before_threads();
  /// Call when the model is loaded. Throws like before_threads().
  void once_loaded();

 private:
  void give_up_files();
  void give_up_system_calls();
  void lacks(const char* part, const std::string& why) const;

  const Options& options_;
  const CacheFolder& cache_;
  bool waits_for_gpu_ = false;
};

}  // namespace hearth
