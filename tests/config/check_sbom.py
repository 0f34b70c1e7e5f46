"""Checks the bill of materials of a build (config/sbom.cmake) against CycloneDX's format and against what
CMake searches for.

It must list every library that a folder of the program finds, with a version. Run by ctest: check_sbom.py
SBOM
"""
import json
import pathlib
import re
import sys
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("config", "engine", "kernels", "profiler", "server")
NO_LIBRARIES = {"threads", "python3", "pkgconfig"}  # part of the system, or tools
FOUND = re.compile(r"^\s*(?:find_package|pkg_check_modules)\((\w+)|^\s*find_path\((\w+)_INCLUDE",
                   re.MULTILINE)


def looked_for():
    names = set()
    for folder in FOLDERS:
        for path in [*(ROOT / folder).rglob("CMakeLists.txt"), *(ROOT / folder).rglob("*.cmake")]:
            names |= {(a or b).lower() for a, b in FOUND.findall(path.read_text())}
    return names - NO_LIBRARIES


def main():
    text = pathlib.Path(sys.argv[1]).read_text()
    bill = json.loads(text)
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.5", 1)
    uuid.UUID(bill["serialNumber"].removeprefix("urn:uuid:"))
    assert bill["metadata"]["component"]["name"] == "hearth" and bill["metadata"]["component"]["version"]
    components = {component["name"].lower(): component for component in bill["components"]}
    assert len(components) == len(bill["components"])
    for component in components.values():
        assert component["type"] == "library" and component["licenses"][0]["license"], component
        assert re.match(r"\d+\.\d+", component["version"]), (
            f"{component['name']}: its version is {component['version']}")
        assert (component["purl"] == component["bom-ref"]
                == f"pkg:generic/{component['name']}@{component['version']}")
    # pkg_check_modules calls cpp-httplib HTTPLIB, and prometheus-cpp prometheus.
    missing = {name for name in looked_for() if not {name, f"cpp-{name}", f"{name}-cpp"} & components.keys()}
    assert not missing, f"config/sbom.cmake lacks {', '.join(sorted(missing))}"
    assert bill["dependencies"] == [{"ref": "hearth",
                                     "dependsOn": [c["bom-ref"] for c in bill["components"]]}]
    assert str(ROOT) not in text, "the bill names a folder of this machine"
    print(f"{len(components)} libraries")


main()
