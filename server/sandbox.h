// --sandbox: which rights hearthd gives up when it no longer needs them.
//
//   Without a GPU   before the first thread starts: files and connections (Landlock), system calls (seccomp)
//   With a GPU      once the model is loaded: system calls. Files are not confined, because the driver opens
//                   devices and files, and starts a program that creates them, at unpredictable times.
//
// Called by the daemon on main's thread.
#pragma once

#include "config/options.h"
#include "server/serving_model.h"

namespace hearth {

class Sandbox {
 public:
  /// options and cache must outlive this object. cache: the folder where activity is written at the end.
  Sandbox(const Options& options, const CacheFolder& cache);

  /// Call after the port is bound and before threads are started. If a right cannot be given up, throws
  /// StartError with --sandbox on, but only logs a warning with --sandbox auto.
  void before_threads();
  /// Call once the model is loaded. Throws like before_threads().
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
