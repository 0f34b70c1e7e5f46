// --sandbox: what rights hearthd gives up once it needs them no more, and when.
//
//   Without a GPU   before the first thread is started: files and connections (Landlock), system calls (seccomp)
//   With a GPU      once the model is loaded: system calls. The driver opens devices and files of its own, and starts a
//                   program to make them, at times that are its own business; so files are left alone.
//
// Called by the daemon on main's thread.
#pragma once

#include "config/options.h"
#include "server/serving_model.h"

namespace hearth {

class Sandbox {
 public:
  /// options outlive this. cache: where activity is written at the end.
  Sandbox(const Options& options, const CacheFolder& cache);

  /// Call once the port is bound, before threads are started. Throws StartError with --sandbox on, if a part of it cannot
  /// be had; with auto the log says so.
  void before_threads();
  /// Call once the model is loaded. Throws likewise.
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
