# Lists what `cmake --install` installs, and makes Debian packages of it (cpack, or the target package of the
# preset package). Included at the end of CMakeLists.txt, after all targets are defined.
#
#   cmake --install build/release --prefix ~/.local     for one user, without root
#   cmake --preset package && cmake --build --preset package     build/package/hearth_VERSION_ARCHITECTURE.deb
include(GNUInstallDirs)
set(package_folder ${CMAKE_SOURCE_DIR}/config/package)
set(documents ${CMAKE_INSTALL_DATADIR}/doc/hearth)

set(programs hearth-profiler)
if(HEARTH_SERVER)
  list(PREPEND programs hearthd)
endif()
install(TARGETS ${programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

foreach(program IN LISTS programs)
  set(manuals ${CMAKE_BINARY_DIR}/manuals)
  install(FILES ${manuals}/${program}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL)
  install(FILES ${manuals}/${program}.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
    RENAME ${program} OPTIONAL)
  install(FILES ${manuals}/${program}.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d OPTIONAL)
endforeach()
install(FILES ${manuals}/hearth.toml.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5 OPTIONAL)

install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/README.md ${CMAKE_BINARY_DIR}/sbom.json DESTINATION ${documents})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs DESTINATION ${documents} FILES_MATCHING
  PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png")
install(FILES ${CMAKE_SOURCE_DIR}/config/hearth.toml ${CMAKE_SOURCE_DIR}/docker/grafana-dashboard.json
  DESTINATION ${documents}/examples)

configure_file(${package_folder}/install_service.cmake.in ${CMAKE_BINARY_DIR}/install_service.cmake @ONLY)
if(HEARTH_SERVER)
  install(SCRIPT ${CMAKE_BINARY_DIR}/install_service.cmake)
endif()

# ---- Debian packages ----
# One build is one package: hearth, or with CUDA hearth-cuda. Both have the same files, so only one can be installed.
set(HEARTH_PACKAGE_CONTACT "The Hearth authors <hearth@example.org>" CACHE STRING "maintainer of the Debian packages: Name <address>")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME hearth)
set(CPACK_PACKAGE_CONTACT ${HEARTH_PACKAGE_CONTACT})
# A release is 0.1.0, and four commits later the version is 0.1.0-4-gabcdef0. Debian would interpret the text
# after the last '-' as its own revision.
string(REGEX REPLACE "-([0-9]+)-g" "+\\1.g" CPACK_PACKAGE_VERSION ${HEARTH_VERSION})
# Names of libraries differ between Debian's releases, so each release has its own package, and a later release's package
# counts as newer.
set(distribution "")
if(EXISTS /etc/os-release)
  file(STRINGS /etc/os-release facts REGEX "^(ID|VERSION_ID)=")
  list(TRANSFORM facts REPLACE "\"" "")
  foreach(fact IN LISTS facts)
    if(fact MATCHES "^ID=debian")
      set(system deb)
    elseif(fact MATCHES "^ID=(.*)")
      set(system ${CMAKE_MATCH_1})
    elseif(fact MATCHES "^VERSION_ID=(.*)")
      set(system_version ${CMAKE_MATCH_1})
    endif()
  endforeach()
  set(distribution "~${system}${system_version}")
endif()
set(CPACK_DEBIAN_PACKAGE_RELEASE "1${distribution}")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "passwd")  # groupadd
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "ca-certificates")  # for hearthd pull
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "inference server for language models larger than the GPU")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "hearthd serves a language model from a GGUF file over OpenAI's HTTP API, as a
service of systemd. hearth-profiler tells how fast a model will be on a
machine, and measures it.

Where the activations of a model are sparse, neurons that are not active are
not computed.
")
if(HEARTH_WITH_CUDA)
  set(CPACK_PACKAGE_NAME hearth-cuda)
  set(CPACK_DEBIAN_PACKAGE_PROVIDES "hearth (= ${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
  set(other hearth)
  set(CPACK_DEBIAN_PACKAGE_SUGGESTS "nvidia-driver")
  string(APPEND CPACK_DEBIAN_PACKAGE_DESCRIPTION "\nThis package computes on NVIDIA's GPUs and the CPU together; without a GPU on\nthe CPU.")
else()
  set(other hearth-cuda)
  string(APPEND CPACK_DEBIAN_PACKAGE_DESCRIPTION "\nThis package computes on the CPU; hearth-cuda computes on NVIDIA's GPUs too.")
endif()
# The two packages replace each other and share the configuration.
set(CPACK_DEBIAN_PACKAGE_CONFLICTS ${other})
set(CPACK_DEBIAN_PACKAGE_REPLACES ${other})
set(CPACK_STRIP_FILES ON)
# Packs the files as `cmake --install --prefix /usr` installs them, below a folder.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_BINARY_DIR}/debian_files.cmake)
configure_file(${package_folder}/debian_files.cmake.in ${CMAKE_BINARY_DIR}/debian_files.cmake @ONLY)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${package_folder}/conffiles ${package_folder}/postinst ${package_folder}/prerm ${package_folder}/postrm)
include(CPack)
