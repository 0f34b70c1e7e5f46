# hearth_write_manuals(PROGRAM): after each link, the program writes its manual page and shell completions
# into manuals/ of the build folder, from where they are installed. So they always match the program beside
# them.
#
# A program for another processor cannot run here, so nothing is written or installed for it.
function(hearth_write_manuals program)
  if(CMAKE_CROSSCOMPILING OR HEARTH_SANITIZE)
    return()
  endif()
  set(folder ${CMAKE_BINARY_DIR}/manuals)
  file(MAKE_DIRECTORY ${folder})
  set(commands
    COMMAND ${program} --help-man >${folder}/${program}.1
    COMMAND ${program} --help-completion-bash >${folder}/${program}.bash
    COMMAND ${program} --help-completion-zsh >${folder}/_${program}
    COMMAND ${program} --help-completion-fish >${folder}/${program}.fish)
  if(program STREQUAL hearthd)
    list(APPEND commands COMMAND ${program} --help-man-toml >${folder}/hearth.toml.5)
  endif()
  add_custom_command(TARGET ${program} POST_BUILD ${commands})
endfunction()
