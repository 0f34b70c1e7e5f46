# Tests config/version.cmake in a scratch repository. Run by ctest: cmake -DSCRATCH=FOLDER -P
# version_test.cmake
include(${CMAKE_CURRENT_LIST_DIR}/../../config/version.cmake)

file(REMOVE_RECURSE ${SCRATCH})
file(MAKE_DIRECTORY ${SCRATCH})
find_program(HEARTH_GIT git REQUIRED)

function(git)
  execute_process(COMMAND ${HEARTH_GIT} -c user.name=test -c user.email=test@localhost -c commit.gpgsign=false ${ARGN}
    WORKING_DIRECTORY ${SCRATCH} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(expect pattern when)
  hearth_version(found ${SCRATCH} 9.9.9)
  if(NOT found MATCHES "^${pattern}$")
    message(FATAL_ERROR "${when}: the version is ${found}, expected ${pattern}")
  endif()
endfunction()

function(expect_commit pattern when)
  hearth_commit(found ${SCRATCH})
  if(NOT "<${found}>" MATCHES "^<${pattern}>$")  # MATCHES never matches an empty text
    message(FATAL_ERROR "${when}: the commit is '${found}', expected '${pattern}'")
  endif()
endfunction()

expect("9\\.9\\.9" "a folder that is no checkout")
expect_commit("" "a folder that is no checkout")
git(init -q)
git(commit -q --allow-empty -m one)
expect("9\\.9\\.9" "a checkout without tags")
git(tag not-a-version)
expect("9\\.9\\.9" "a tag that is no version")
git(tag v1.2.3)
expect("1\\.2\\.3" "a release")
git(commit -q --allow-empty -m two)
expect("1\\.2\\.3-1-g[0-9a-f]+" "a commit after a release")
expect_commit("[0-9a-f]+" "a clean checkout")
file(WRITE ${SCRATCH}/file "one")
git(add file)
expect_commit("[0-9a-f]+-dirty" "a changed checkout")
file(REMOVE_RECURSE ${SCRATCH})
