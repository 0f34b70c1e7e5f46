# hearth_write_manuals(PROGRAM): has a program write its manual page and its completions for shells after each link, into
# manuals/ of the build folder, from where they are installed. So they are those of the program beside them.
#
# A program for another processor cannot be run here: then nothing is written, and nothing of it is installed.
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
