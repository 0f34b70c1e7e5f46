# Compiles for 64-bit Arm on another machine, with Debian's cross compiler and arm64 packages; programs then
# run under QEMU. The preset aarch64 uses it; tests/kernels/aarch64.sh lists what it needs.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
find_program(arm_gcc NAMES aarch64-linux-gnu-gcc aarch64-linux-gnu-gcc-14 aarch64-linux-gnu-gcc-13 aarch64-linux-gnu-gcc-12 REQUIRED)
string(REPLACE "-gcc" "-g++" arm_gxx ${arm_gcc})
set(CMAKE_C_COMPILER ${arm_gcc})
set(CMAKE_CXX_COMPILER ${arm_gxx})
# Libraries for the other architecture are installed beside this machine's own.
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
# The build lists each program's tests by running it. QEMU's processor has every extension, unless QEMU_CPU in
# the environment names another one: cortex-a72 has no dot products.
find_program(arm_emulator NAMES qemu-aarch64 qemu-aarch64-static)
if(arm_emulator)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${arm_emulator})
endif()
