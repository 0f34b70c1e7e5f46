# Builds the page at / and the files below /page/ with esbuild, and puts them into page_parts.cpp.
#
# The document is index.html with style/main.css and script/main.js inserted. What only some answers need are
# files of their own, which the page loads when it needs them: script/lazy/math.js (KaTeX) with KaTeX's style
# sheet and fonts, and script/lazy/code.js (highlight.js). The libraries are Debian's packages;
# docker/install-deps.sh lists them. Equal sources and packages give equal bytes.
find_program(HEARTH_ESBUILD esbuild)
set(HEARTH_NODE_PATH "/usr/share/nodejs:/usr/share/javascript" CACHE STRING
  "folders with the page's JavaScript libraries, with a colon between them")
string(REPLACE ":" ";" page_library_folders "${HEARTH_NODE_PATH}")
foreach(library markdown-it/lib/index.js punycode/punycode.js dompurify/package.json highlight.js/lib/highlight.js
    katex/katex.mjs katex/fonts/KaTeX_Main-Regular.woff2)
  set(page_found "")
  foreach(folder IN LISTS page_library_folders)
    if(EXISTS ${folder}/${library} AND NOT page_found)
      set(page_found ${folder}/${library})
    endif()
  endforeach()
  if(NOT page_found OR NOT HEARTH_ESBUILD)
    message(FATAL_ERROR "The page of hearthd is built with esbuild, markdown-it, punycode, DOMPurify, highlight.js "
      "and KaTeX. esbuild is ${HEARTH_ESBUILD}, and ${library} is \"${page_found}\", looked for in "
      "${HEARTH_NODE_PATH}. `docker/install-deps.sh build` installs all of them.")
  endif()
  list(APPEND page_libraries ${page_found})
endforeach()
list(GET page_libraries 4 page_katex)
cmake_path(GET page_katex PARENT_PATH page_katex)

# The versions, for the bill of materials (config/sbom.cmake).
function(page_version name pattern file)
  file(STRINGS ${file} line REGEX "${pattern}" LIMIT_COUNT 1)
  string(REGEX MATCH "[0-9]+\\.[0-9.]+" version "${line}")
  set(${name}_VERSION ${version} PARENT_SCOPE)
endfunction()
foreach(pair markdown_it:0 punycode:1 DOMPurify:2 highlight_js:3)
  string(REGEX REPLACE ":.*" "" name ${pair})
  string(REGEX REPLACE ".*:" "" index ${pair})
  list(GET page_libraries ${index} file)
  string(REGEX REPLACE "/(lib/[a-z]+|punycode|package)\\.js(on)?$" "/package.json" file ${file})
  page_version(${name} "\"version\":" ${file})
endforeach()
page_version(KaTeX "^ *version: ['\"]?[0-9]" ${page_katex}/katex.mjs)
if(NOT KaTeX_VERSION)
  page_version(KaTeX "version = ['\"][0-9]" ${page_katex}/katex.mjs)
endif()

set(page_folder ${CMAKE_CURRENT_LIST_DIR})
set(page_made ${CMAKE_CURRENT_BINARY_DIR}/made)
file(GLOB_RECURSE page_sources CONFIGURE_DEPENDS ${page_folder}/script/*.js ${page_folder}/style/*.css)
set(page_esbuild ${CMAKE_COMMAND} -E env NODE_PATH=${HEARTH_NODE_PATH}
  ${HEARTH_ESBUILD} --bundle --minify --format=esm --target=es2022 --log-level=warning --legal-comments=none)
add_custom_command(OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/page_parts.cpp
  COMMAND ${page_esbuild} ${page_folder}/style/main.css --outfile=${page_made}/main.css
  COMMAND ${page_esbuild} ${page_folder}/script/main.js --outfile=${page_made}/main.js
  COMMAND ${page_esbuild} ${page_folder}/script/lazy/math.js --outfile=${page_made}/math.js
  COMMAND ${page_esbuild} ${page_folder}/script/lazy/code.js --outfile=${page_made}/code.js
  COMMAND ${CMAKE_COMMAND} -D INDEX=${page_folder}/index.html -D MADE=${page_made} -D KATEX=${page_katex}
    -D OUT=${CMAKE_CURRENT_BINARY_DIR}/page_parts.cpp -P ${page_folder}/embed.cmake
  DEPENDS ${page_sources} ${page_libraries} ${page_folder}/index.html ${page_folder}/embed.cmake
  COMMENT "Building hearthd's page" VERBATIM)
