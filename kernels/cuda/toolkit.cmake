# Finds nvcc 12 or newer and enables the language CUDA with it, or prints one line that says why CUDA is left
# out. Included by the top CMakeLists.txt, because a language must be enabled where all its targets can see
# it. Sets HEARTH_WITH_CUDA, and HEARTH_CUDA_CACHED: folders that may hold a toolkit or its headers.
set(HEARTH_CUDA "AUTO" CACHE STRING "CUDA kernels: AUTO (where nvcc 12 or newer is found), ON or OFF")
set_property(CACHE HEARTH_CUDA PROPERTY STRINGS AUTO ON OFF)
set(HEARTH_CUDA_ARCHITECTURES "" CACHE STRING
  "GPUs to build for: release (all), a list such as 80;89, or empty: this machine's GPUs, 80 where there is none")

# The cache of docker/install-deps.sh is used if nothing else is found.
if(DEFINED ENV{XDG_CACHE_HOME})
  file(GLOB HEARTH_CUDA_CACHED "$ENV{XDG_CACHE_HOME}/hearth/cuda-*")
else()
  file(GLOB HEARTH_CUDA_CACHED "$ENV{HOME}/.cache/hearth/cuda-*")
endif()

set(HEARTH_WITH_CUDA OFF)
if(HEARTH_CUDA STREQUAL "OFF")
  message(STATUS "CUDA: switched off, built without it")
  return()
endif()

# Takes the first nvcc that is new enough, because distributions put old ones into PATH.
if(NOT CMAKE_CUDA_COMPILER)
  unset(CMAKE_CUDA_COMPILER CACHE)
endif()
find_program(nvcc_in_path nvcc NO_CACHE)
set(nvcc "")
set(lacking "no nvcc found")
foreach(candidate "${CMAKE_CUDA_COMPILER}" "$ENV{CUDACXX}" "${nvcc_in_path}" "$ENV{CUDA_HOME}/bin/nvcc"
    "$ENV{CUDA_PATH}/bin/nvcc" /usr/local/cuda/bin/nvcc ${HEARTH_CUDA_CACHED})
  if(IS_DIRECTORY "${candidate}")
    string(APPEND candidate /bin/nvcc)
  endif()
  if(nvcc OR NOT candidate OR NOT EXISTS "${candidate}")
    continue()
  endif()
  execute_process(COMMAND ${candidate} --version OUTPUT_VARIABLE version ERROR_QUIET)
  string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" version "${version}")
  set(version "${CMAKE_MATCH_1}")
  if(version AND version VERSION_GREATER_EQUAL 12)
    set(nvcc "${candidate}")
    set(lacking "")
  else()
    set(lacking "${candidate} is version ${version}, and 12 is the oldest that will do")
  endif()
endforeach()

# The GPUs to compile for. nvcc lists the ones it knows as compute_75, compute_80, ...
if(NOT lacking)
  execute_process(COMMAND ${nvcc} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
  string(REGEX MATCHALL "[0-9]+" known "${known}")
  set(architectures ${HEARTH_CUDA_ARCHITECTURES})
  if(architectures STREQUAL "release")
    # Turing, A100, Ampere, Ada, Hopper, Blackwell. For other GPUs, the driver compiles the newest PTX that is
    # not newer than the GPU. This is 9.0 for compute capability 10.0, 11.0 and above 12, and 7.5 for any GPU
    # if the toolkit lacks 9.0.
    set(architectures "")
    foreach(image 75-real 80-real 86-real 89-real 90-real 120-real 75-virtual 90-virtual)
      string(REGEX MATCH "^[0-9]+" number ${image})
      if(number IN_LIST known)
        list(APPEND architectures ${image})
      endif()
    endforeach()
  elseif(NOT architectures)
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
      OUTPUT_VARIABLE present ERROR_QUIET RESULT_VARIABLE failed)
    string(REPLACE "." "" present "${present}")
    string(REGEX MATCHALL "[0-9]+" present "${present}")
    foreach(number IN LISTS present)
      if(NOT failed AND number IN_LIST known)
        list(APPEND architectures ${number})
      endif()
    endforeach()
    list(REMOVE_DUPLICATES architectures)
    if(NOT architectures)
      # One architecture takes a third of the time of three. Its PTX runs on every later GPU.
      set(architectures 80)
    endif()
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${architectures})
  set(ENV{CUDACXX} ${nvcc})
  if(HEARTH_CUDA STREQUAL "AUTO")
    # A toolkit that cannot build, because its host compiler is too new or a part is missing, must not stop
    # the build.
    include(CheckLanguage)
    check_language(CUDA)
    if(NOT CMAKE_CUDA_COMPILER)
      set(lacking "${nvcc} does not build a trial program (-DHEARTH_CUDA=ON shows why)")
    endif()
  endif()
endif()

if(lacking AND HEARTH_CUDA STREQUAL "ON")
  message(FATAL_ERROR "HEARTH_CUDA is ON, but ${lacking}. docker/install-deps.sh --cuda fetches a toolkit.")
elseif(lacking)
  message(STATUS "CUDA: ${lacking}, built without it")
else()
  enable_language(CUDA)
  # CMake 3.25 does not know that nvcc supports C++20.
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(HEARTH_WITH_CUDA ON)
  message(STATUS "CUDA: nvcc ${version} at ${nvcc}, for ${architectures}")
endif()
