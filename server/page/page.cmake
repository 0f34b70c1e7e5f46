# Builds the page at / as one HTML document: index.html with the style sheets and modules inserted in this
# order. The modules are ES modules that browsers can also load separately. In the document they share one
# scope, so `import` lines and the word `export` are removed.
set(page_styles theme base layout chat panel)
set(page_modules
  dom announcer kept clipboard key request event_stream markdown_inline markdown theme settings models conversations
  generation message_view transcript sidebar composer panels trend neuron_map live main)

set(page_style "")
foreach(name IN LISTS page_styles)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/style/${name}.css)
  file(READ ${CMAKE_CURRENT_LIST_DIR}/style/${name}.css text)
  string(APPEND page_style "${text}")
endforeach()
set(page_script "")
foreach(name IN LISTS page_modules)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/script/${name}.js)
  file(READ ${CMAKE_CURRENT_LIST_DIR}/script/${name}.js text)
  string(REGEX REPLACE "\nimport [^\n]*;" "" text "\n${text}")
  string(REPLACE "\nexport " "\n" text "${text}")
  string(APPEND page_script "${text}")
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/index.html)
file(READ ${CMAKE_CURRENT_LIST_DIR}/index.html page_document)
string(REPLACE "@page_style@" "${page_style}" page_document "${page_document}")
string(REPLACE "@page_script@" "${page_script}" page_document "${page_document}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/document.cpp.in ${CMAKE_CURRENT_BINARY_DIR}/page_document.cpp @ONLY)
