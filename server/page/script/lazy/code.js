// highlight.js with the languages that answers use most. The page loads it when an answer has a code block.

import hljs from "highlight.js/lib/highlight.js";
import awk from "highlight.js/lib/languages/awk.js";
import bash from "highlight.js/lib/languages/bash.js";
import cmake from "highlight.js/lib/languages/cmake.js";
import cpp from "highlight.js/lib/languages/cpp.js";
import cs from "highlight.js/lib/languages/cs.js";
import css from "highlight.js/lib/languages/css.js";
import dart from "highlight.js/lib/languages/dart.js";
import diff from "highlight.js/lib/languages/diff.js";
import dockerfile from "highlight.js/lib/languages/dockerfile.js";
import elixir from "highlight.js/lib/languages/elixir.js";
import go from "highlight.js/lib/languages/go.js";
import gradle from "highlight.js/lib/languages/gradle.js";
import haskell from "highlight.js/lib/languages/haskell.js";
import http from "highlight.js/lib/languages/http.js";
import ini from "highlight.js/lib/languages/ini.js";
import java from "highlight.js/lib/languages/java.js";
import javascript from "highlight.js/lib/languages/javascript.js";
import json from "highlight.js/lib/languages/json.js";
import julia from "highlight.js/lib/languages/julia.js";
import kotlin from "highlight.js/lib/languages/kotlin.js";
import latex from "highlight.js/lib/languages/tex.js";
import lua from "highlight.js/lib/languages/lua.js";
import makefile from "highlight.js/lib/languages/makefile.js";
import markdown from "highlight.js/lib/languages/markdown.js";
import matlab from "highlight.js/lib/languages/matlab.js";
import nginx from "highlight.js/lib/languages/nginx.js";
import objectivec from "highlight.js/lib/languages/objectivec.js";
import perl from "highlight.js/lib/languages/perl.js";
import php from "highlight.js/lib/languages/php.js";
import powershell from "highlight.js/lib/languages/powershell.js";
import properties from "highlight.js/lib/languages/properties.js";
import protobuf from "highlight.js/lib/languages/protobuf.js";
import python from "highlight.js/lib/languages/python.js";
import r from "highlight.js/lib/languages/r.js";
import ruby from "highlight.js/lib/languages/ruby.js";
import rust from "highlight.js/lib/languages/rust.js";
import scala from "highlight.js/lib/languages/scala.js";
import scss from "highlight.js/lib/languages/scss.js";
import sql from "highlight.js/lib/languages/sql.js";
import swift from "highlight.js/lib/languages/swift.js";
import typescript from "highlight.js/lib/languages/typescript.js";
import vbnet from "highlight.js/lib/languages/vbnet.js";
import vim from "highlight.js/lib/languages/vim.js";
import xml from "highlight.js/lib/languages/xml.js";
import yaml from "highlight.js/lib/languages/yaml.js";

const languages = {
  awk, bash, cmake, cpp, cs, css, dart, diff, dockerfile, elixir, go, gradle, haskell, http, ini, java,
  javascript, json, julia, kotlin, latex, lua, makefile, markdown, matlab, nginx, objectivec, perl,
  php, powershell, properties, protobuf, python, r, ruby, rust, scala, scss, sql, swift, typescript,
  vbnet, vim, xml, yaml
};
for (const [name, rules] of Object.entries(languages)) hljs.registerLanguage(name, rules);
hljs.configure({hideUpgradeWarningAcceptNoSupportOrSecurityUpdates: true});

export default hljs;
