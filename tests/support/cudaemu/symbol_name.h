// Finds the names of kernels from their addresses.
//
// Kernels are local to their files, so the dynamic linker does not know them; the names come from the
// program's own symbol table.
#pragma once

#include <string>

namespace hearth::cudaemu {

/// The function's qualified name without parameters ("hearth::cuda::add_kernel"), or its address in
/// hexadecimal if the program was stripped or the function is in a library.
std::string symbol_name(const void* function);

}  // namespace hearth::cudaemu
