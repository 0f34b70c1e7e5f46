# Compiles programs that run on any x86-64 or 64-bit Arm Linux with the C library 2.31 or newer: with this
# machine's g++, the C library of Debian 11 and static libraries in HEARTH_SYSROOT, which
# docker/release/portable.sh makes. The preset portable uses it.
#
# CMAKE_SYSTEM_NAME stays unset, because the programs run on this machine too and write their own manuals.
set(HEARTH_SYSROOT /opt/hearth-sysroot CACHE PATH "folder that docker/release/portable.sh made")
set(CMAKE_SYSROOT ${HEARTH_SYSROOT})
set(CMAKE_FIND_ROOT_PATH ${HEARTH_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
# The sysroot has no shared library except the C library, so every other library is linked statically.
set(OPENSSL_USE_STATIC_LIBS ON)
set(PKG_CONFIG_ARGN --static)
file(GLOB pkg_config_folders ${HEARTH_SYSROOT}/usr/lib/*/pkgconfig)
list(JOIN pkg_config_folders ":" pkg_config_folders)
set(ENV{PKG_CONFIG_LIBDIR} "${pkg_config_folders}:${HEARTH_SYSROOT}/usr/share/pkgconfig")
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${HEARTH_SYSROOT})
# -B: otherwise g++ would prefer this machine's C library to the sysroot's. usr/local/lib has libgcc_eh.a of
# Debian 11, because the one of Debian 12 needs a newer C library.
file(GLOB c_library ${HEARTH_SYSROOT}/usr/lib/*-linux-gnu)
set(CMAKE_EXE_LINKER_FLAGS_INIT "--sysroot=${HEARTH_SYSROOT} -B${c_library} -Wl,-z,relro,-z,now \
-static-libgcc -static-libstdc++ -L${HEARTH_SYSROOT}/usr/local/lib ${HEARTH_SYSROOT}/usr/local/lib/newer_names.o")
# CMake does not tell nvcc of the sysroot.
set(CMAKE_CUDA_FLAGS_INIT "-Xcompiler=--sysroot=${HEARTH_SYSROOT}")
set(CMAKE_CXX_STANDARD_LIBRARIES "-lpthread -ldl -lrt -lm")
set(CMAKE_C_STANDARD_LIBRARIES "-lpthread -ldl -lrt -lm")
# The tests' header is the whole library, so it needs no static library of cpp-httplib.
set(HEARTH_HTTPLIB_INCLUDE ${HEARTH_SYSROOT}/usr/local/include CACHE PATH "folder with cpp-httplib's header")
