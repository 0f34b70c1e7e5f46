// Finds cuBLASLt with dlopen.
#include "kernels/cuda/matmul/cublaslt.h"

#include <dlfcn.h>

#include <type_traits>

namespace hearth::cuda {
namespace {

// The newest version comes first. Version 12 belongs to CUDA 12, the oldest toolkit with which Hearth builds.
constexpr const char* kNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
// For the first entry, which is empty, dlopen() uses the loader's own search path. The other entries are
// folders that NVIDIA's installers use but do not register with the loader.
constexpr const char* kFolders[] = {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/lib/",
                                    "/usr/local/cuda/targets/x86_64-linux/lib/",
                                    "/usr/local/cuda/targets/sbsa-linux/lib/"};

/// Returns the library's handle, or null. If null, `why` is the loader's message for the first name.
void* open_library(std::string& why) {
  for (const char* name : kNames) {
    for (const char* folder : kFolders) {
      if (void* const library = dlopen((std::string(folder) + name).c_str(), RTLD_NOW | RTLD_LOCAL))
        return library;
      const char* const error = dlerror();
      if (why.empty()) why = error != nullptr ? error : std::string(name) + " was not found";
    }
  }
  return nullptr;
}

std::variant<CublasLt, std::string> load() {
  std::string why;
  void* const library = open_library(why);
  if (library == nullptr) return why;
  CublasLt table{};
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    void* const found = dlsym(library, name);
    if (found == nullptr && missing.empty()) missing = name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
  find(table.GetVersion, "cublasLtGetVersion");
  find(table.GetStatusString, "cublasLtGetStatusString");
  find(table.Create, "cublasLtCreate");
  find(table.Destroy, "cublasLtDestroy");
  find(table.MatmulDescCreate, "cublasLtMatmulDescCreate");
  find(table.MatmulDescDestroy, "cublasLtMatmulDescDestroy");
  find(table.MatmulDescSetAttribute, "cublasLtMatmulDescSetAttribute");
  find(table.MatrixLayoutCreate, "cublasLtMatrixLayoutCreate");
  find(table.MatrixLayoutDestroy, "cublasLtMatrixLayoutDestroy");
  find(table.MatmulPreferenceCreate, "cublasLtMatmulPreferenceCreate");
  find(table.MatmulPreferenceDestroy, "cublasLtMatmulPreferenceDestroy");
  find(table.MatmulPreferenceSetAttribute, "cublasLtMatmulPreferenceSetAttribute");
  find(table.MatmulAlgoGetHeuristic, "cublasLtMatmulAlgoGetHeuristic");
  find(table.MatmulAlgoConfigGetAttribute, "cublasLtMatmulAlgoConfigGetAttribute");
  find(table.Matmul, "cublasLtMatmul");
  if (missing.empty()) return table;
  dlclose(library);
  return "the library has no function " + missing;
}

}  // namespace

const std::variant<CublasLt, std::string>& find_cublaslt() {
  static const std::variant<CublasLt, std::string> found = load();
  return found;
}

}  // namespace hearth::cuda
