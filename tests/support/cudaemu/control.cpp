#include "tests/support/cudaemu/control.h"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>

#include "tests/support/cudaemu/errors.h"
#include "tests/support/cudaemu/memory.h"
#include "tests/support/cudaemu/order.h"
#include "tests/support/cudaemu/stats.h"
#include "tests/support/cudaemu/stream.h"

namespace hearth::cudaemu {
namespace {

long from_environment(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atol(text) : otherwise;
}

Config configured() {
  Config c;
  c.driver = CUDART_VERSION;
  c.n_devices = static_cast<int>(from_environment("CUDAEMU_DEVICES", 1));
  c.vram_bytes = static_cast<size_t>(from_environment("CUDAEMU_VRAM_MB", 8192)) << 20;
  c.vram_taken_bytes = static_cast<size_t>(from_environment("CUDAEMU_VRAM_TAKEN_MB", 0)) << 20;
  if (const long kb = from_environment("CUDAEMU_MEMLOCK_KB", -1); kb >= 0)
    c.memlock_bytes = static_cast<size_t>(kb) << 10;
  c.compute_capability = static_cast<int>(from_environment("CUDAEMU_COMPUTE_CAPABILITY", 80));
  c.has_cublaslt = from_environment("CUDAEMU_CUBLASLT", 1) != 0;
  c.schedule = static_cast<Schedule>(from_environment("CUDAEMU_SCHEDULE", 0));
  c.seed = static_cast<unsigned>(from_environment("CUDAEMU_SEED", 1));
  c.block_workers = static_cast<int>(from_environment("CUDAEMU_BLOCK_WORKERS", 1));
  c.jitter_us = static_cast<int>(from_environment("CUDAEMU_JITTER_US", 0));
  c.guard = from_environment("CUDAEMU_GUARD", 0) != 0;
  return c;
}

struct Fault {
  int n_good;
  cudaError_t error;
  int n_times;
};
using Faults = std::map<std::string, Fault>;

Faults parse_faults(const std::string& text) {
  Faults parsed;
  std::istringstream list(text);
  for (std::string one; std::getline(list, one, ',');) {
    static const std::regex form("([A-Za-z ]+[A-Za-z0-9]*):([0-9]{1,9}):([0-9]{1,9})(?::([0-9]{1,9}))?");
    std::smatch part;
    if (!std::regex_match(one, part, form)) {
      throw std::invalid_argument("\"" + one + "\" is no fault; expected API:N_GOOD:ERROR[:N_TIMES]");
    }
    parsed[part[1]] = {std::stoi(part[2]), static_cast<cudaError_t>(std::stoi(part[3])),
                       part[4].matched ? std::stoi(part[4]) : 1};
  }
  return parsed;
}

std::mutex faults_mutex;
Faults& faults() {
  static Faults all = [] {
    const char* const text = std::getenv("CUDAEMU_FAIL");
    return parse_faults(text != nullptr ? text : "");
  }();
  return all;
}
std::map<std::string, uint64_t>& calls() {  // guarded by faults_mutex
  static std::map<std::string, uint64_t> all;
  return all;
}

std::mutex stats_mutex;
Stats counted;

thread_local cudaError_t last_error = cudaSuccess;
std::atomic<cudaError_t> lost_by = cudaSuccess;

}  // namespace

bool is_emulated() { return true; }

Config& config() {
  static Config c = configured();
  return c;
}

Stats stats() {
  Stats result;
  {
    const UnseenLock lock(stats_mutex);
    result = counted;
  }
  const MemoryUse memory = memory_use();
  result.vram_used = memory.vram_bytes;
  result.vram_peak = memory.vram_peak_bytes;
  result.pinned_used = memory.pinned_bytes;
  result.registered_used = memory.registered_bytes;
  return result;
}

void reset_stats() {
  {
    const UnseenLock lock(stats_mutex);
    counted = {};
  }
  {
    const UnseenLock lock(faults_mutex);
    calls().clear();
  }
  reset_vram_peak();
}

void count(uint64_t Stats::*what, uint64_t n) {
  const UnseenLock lock(stats_mutex);
  counted.*what += n;
}

void fail_next(const char* api, int n_good, cudaError_t error, int n_times) {
  const UnseenLock lock(faults_mutex);
  faults()[api] = {n_good, error, n_times};
}

void fail_as_told(const std::string& told) {
  const UnseenLock lock(faults_mutex);
  for (const auto& [api, fault] : parse_faults(told)) faults()[api] = fault;
}

std::map<std::string, uint64_t> call_counts() {
  const UnseenLock lock(faults_mutex);
  return calls();
}

cudaError_t take_fault(const char* name) {
  const UnseenLock lock(faults_mutex);
  ++calls()[name];
  const auto found = faults().find(name);
  if (found == faults().end() || found->second.n_good-- > 0) return cudaSuccess;
  const cudaError_t error = found->second.error;
  if (--found->second.n_times <= 0) faults().erase(found);
  return error;
}

void break_device(cudaError_t error) {
  cudaError_t working = cudaSuccess;
  lost_by.compare_exchange_strong(working, error);
}

cudaError_t machine_error() {
  // A driver runs programs for its own major version of CUDA and for older ones; the runtime accepts no
  // driver that is too old.
  if (config().driver < CUDART_VERSION / 1000 * 1000) return cudaErrorInsufficientDriver;
  return config().n_devices == 0 ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t device_error() {
  const cudaError_t error = machine_error();
  return error != cudaSuccess ? error : lost_by.load();
}

void repair_device() {
  wait_for_device();
  lost_by = cudaSuccess;
  last_error = cudaSuccess;
  const UnseenLock lock(faults_mutex);
  faults().clear();
}

cudaError_t finish_call(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t peek_last_error() { return lost_by != cudaSuccess ? lost_by.load() : last_error; }

void clear_last_error() { last_error = cudaSuccess; }

}  // namespace hearth::cudaemu
