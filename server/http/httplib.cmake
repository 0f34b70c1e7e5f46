# Finds cpp-httplib and checks whether its version was tested. Defines the target hearth_httplib.
#
# Linux distributions package the library as one header, or as a header and a shared library; pkg-config finds
# both. HEARTH_HTTPLIB_INCLUDE selects the header of another version, for tests.
set(HEARTH_HTTPLIB_INCLUDE "" CACHE PATH "folder with another httplib.h, instead of the system's cpp-httplib")
set(oldest_httplib 0.11.4)  # the version of Debian 12
set(newest_httplib 0.53.1)  # newer versions work if http/message/http_framing.cpp compiles with them

add_library(hearth_httplib INTERFACE)
if(HEARTH_HTTPLIB_INCLUDE)
  target_include_directories(hearth_httplib SYSTEM INTERFACE ${HEARTH_HTTPLIB_INCLUDE})
  set(httplib_header ${HEARTH_HTTPLIB_INCLUDE}/httplib.h)
else()
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib)
  target_link_libraries(hearth_httplib INTERFACE PkgConfig::HTTPLIB)
  find_file(httplib_header httplib.h HINTS ${HTTPLIB_INCLUDE_DIRS} ${HTTPLIB_INCLUDEDIR} NO_CACHE REQUIRED)
endif()

file(STRINGS ${httplib_header} version_line REGEX "define CPPHTTPLIB_VERSION +\"")
string(REGEX MATCH "[0-9]+[.][0-9]+[.][0-9]+" httplib_version "${version_line}")
if(NOT httplib_version OR httplib_version VERSION_LESS oldest_httplib)
  message(FATAL_ERROR "${httplib_header} is cpp-httplib ${httplib_version}; Hearth needs ${oldest_httplib} or newer. "
    "Install a newer one, or set HEARTH_HTTPLIB_INCLUDE to a folder that has its httplib.h.")
elseif(httplib_version VERSION_GREATER newest_httplib)
  message(STATUS "cpp-httplib ${httplib_version} (newer than ${newest_httplib}, the newest that was tried)")
else()
  message(STATUS "cpp-httplib ${httplib_version} (tried from ${oldest_httplib} to ${newest_httplib})")
endif()
