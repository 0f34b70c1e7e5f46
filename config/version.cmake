# hearth_version(RESULT FOLDER FALLBACK): the version of the source tree in FOLDER.
#
# A release is a tag v1.2.3. `git describe` gives "1.2.3" on it and "1.2.3-4-gabcdef0" four commits after it.
# Without such a tag, outside of a git checkout (a container's build, an archive) or without git, the version
# is FALLBACK, the version of project(). The version is computed when CMake configures, so that a commit does
# not make the next build longer.
function(hearth_version result folder fallback)
  set(version ${fallback})
  find_program(HEARTH_GIT git)
  if(HEARTH_GIT AND EXISTS ${folder}/.git)
    execute_process(COMMAND ${HEARTH_GIT} describe --tags --match "v[0-9]*" WORKING_DIRECTORY ${folder}
      OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
    if(NOT failed)
      string(REGEX REPLACE "^v" "" version "${described}")
    endif()
  endif()
  set(${result} ${version} PARENT_SCOPE)
endfunction()

# hearth_commit(RESULT FOLDER): the commit that is checked out in FOLDER, with "-dirty" if tracked files differ from it; empty
# outside of a git checkout or without git. Also computed when CMake configures.
function(hearth_commit result folder)
  set(commit "")
  find_program(HEARTH_GIT git)
  if(HEARTH_GIT AND EXISTS ${folder}/.git)
    execute_process(COMMAND ${HEARTH_GIT} describe --always --exclude "*" --abbrev=12 --dirty WORKING_DIRECTORY ${folder}
      OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
    if(NOT failed)
      set(commit ${described})
    endif()
  endif()
  set(${result} ${commit} PARENT_SCOPE)
endfunction()
