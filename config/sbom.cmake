# hearth_write_sbom(FILE): the bill of materials of a build, as CycloneDX 1.5 JSON: the libraries that hearthd and
# hearth-profiler are built from, with the versions that were found on this machine, and their licenses.
#
# Called at the end of CMakeLists.txt, when CMake configures. The file depends only on versions, so two builds
# with the same libraries write the same bytes. tests/config/check_sbom.py compares it with the packages that
# the folders search for.

# hearth_found_version(RESULT FOLDER VARIABLE MODULE): the value of VARIABLE in FOLDER, or else the version of
# MODULE according to pkg-config.
function(hearth_found_version result folder variable module)
  get_directory_property(version DIRECTORY ${CMAKE_SOURCE_DIR}/${folder} DEFINITION ${variable})
  if(NOT version AND module)
    find_program(HEARTH_PKG_CONFIG pkg-config)
    if(HEARTH_PKG_CONFIG)
      execute_process(COMMAND ${HEARTH_PKG_CONFIG} --modversion ${module}
        OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    endif()
  endif()
  if(NOT version)
    set(version unknown)
  endif()
  set(${result} ${version} PARENT_SCOPE)
endfunction()

function(hearth_write_sbom file)
  set(components "")
  set(references "")
  set(linked shared)
  if(HEARTH_SYSROOT)  # the preset portable
    set(linked static)
  endif()
  macro(component name version license linked)
    set(reference "pkg:generic/${name}@${version}")
    list(APPEND references "\"${reference}\"")
    list(APPEND components "    {\"type\": \"library\", \"bom-ref\": \"${reference}\", \"name\": \"${name}\", \"version\": \"${version}\",
     \"purl\": \"${reference}\", \"licenses\": [{\"license\": {${license}}}],
     \"properties\": [{\"name\": \"hearth:linked\", \"value\": \"${linked}\"}]}")
  endmacro()
  hearth_found_version(version config CLI11_VERSION CLI11)
  component(CLI11 ${version} "\"id\": \"BSD-3-Clause\"" headers)
  hearth_found_version(version engine nlohmann_json_VERSION nlohmann_json)
  component(nlohmann_json ${version} "\"id\": \"MIT\"" headers)
  hearth_found_version(version engine PCRE2_VERSION libpcre2-8)
  component(PCRE2 ${version} "\"id\": \"BSD-3-Clause\"" ${linked})
  hearth_found_version(version engine UTF8PROC_VERSION "")
  component(utf8proc ${version} "\"id\": \"MIT\"" ${linked})
  hearth_found_version(version profiler/machine tomlplusplus_VERSION tomlplusplus)
  component(tomlplusplus ${version} "\"id\": \"MIT\"" headers)
  hearth_found_version(version profiler spdlog_VERSION spdlog)
  component(spdlog ${version} "\"id\": \"MIT\"" ${linked})
  hearth_found_version(version profiler fmt_VERSION fmt)
  component(fmt ${version} "\"id\": \"MIT\"" ${linked})
  if(HEARTH_SERVER)
    hearth_found_version(version server/http httplib_version cpp-httplib)
    if(HEARTH_HTTPLIB_INCLUDE)
      component(cpp-httplib ${version} "\"id\": \"MIT\"" headers)
    else()
      component(cpp-httplib ${version} "\"id\": \"MIT\"" shared)
    endif()
    hearth_found_version(version server/metrics prometheus_VERSION prometheus-cpp-core)
    component(prometheus-cpp ${version} "\"id\": \"MIT\"" ${linked})
    foreach(library markdown_it:MIT punycode:MIT DOMPurify:Apache-2.0 highlight_js:BSD-3-Clause KaTeX:MIT)
      string(REGEX REPLACE ":.*" "" name ${library})
      string(REGEX REPLACE ".*:" "" license ${library})
      hearth_found_version(version server/page ${name}_VERSION "")
      string(REPLACE _ - name ${name})
      component(${name} ${version} "\"id\": \"${license}\"" page)
    endforeach()
    hearth_found_version(version server/models CURL_VERSION_STRING libcurl)
    component(CURL ${version} "\"id\": \"curl\"" ${linked})
    hearth_found_version(version server/process OPENSSL_VERSION openssl)
    component(OpenSSL ${version} "\"id\": \"Apache-2.0\"" ${linked})
    hearth_found_version(version server/http ZLIB_VERSION_STRING zlib)
    component(ZLIB ${version} "\"id\": \"Zlib\"" ${linked})
  endif()
  if(linked STREQUAL "static")
    component(libstdc++ ${CMAKE_CXX_COMPILER_VERSION} "\"name\": \"GPL-3.0-or-later WITH GCC-exception-3.1\"" static)
  endif()
  if(HEARTH_WITH_CUDA)
    component(cudart ${CMAKE_CUDA_COMPILER_VERSION} "\"name\": \"NVIDIA Software License Agreement\"" static)
  endif()
  list(JOIN components ",\n" components)
  list(JOIN references ", " references)
  string(UUID serial NAMESPACE 6ba7b811-9dad-11d1-80b4-00c04fd430c8 NAME "hearth ${HEARTH_VERSION} ${components}" TYPE SHA1)
  file(WRITE ${file} "{
  \"bomFormat\": \"CycloneDX\",
  \"specVersion\": \"1.5\",
  \"serialNumber\": \"urn:uuid:${serial}\",
  \"version\": 1,
  \"metadata\": {
    \"component\": {\"type\": \"application\", \"bom-ref\": \"hearth\", \"name\": \"hearth\", \"version\": \"${HEARTH_VERSION}\",
                  \"licenses\": [{\"license\": {\"id\": \"Apache-2.0\"}}]},
    \"properties\": [{\"name\": \"hearth:compiler\", \"value\": \"${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\"},
                   {\"name\": \"hearth:system\", \"value\": \"${CMAKE_SYSTEM_NAME} ${CMAKE_SYSTEM_PROCESSOR}\"}]
  },
  \"components\": [
${components}
  ],
  \"dependencies\": [{\"ref\": \"hearth\", \"dependsOn\": [${references}]}]
}
")
endfunction()
