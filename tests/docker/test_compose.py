"""The compose files, checked against the compose specification's schema and by docker-compose's own merge;
what Prometheus and Grafana read of them; and the help of the packages' script."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import yaml

DOCKER = pathlib.Path(__file__).resolve().parents[2] / "docker"
FILES = ["compose.yaml", "compose.cuda.yaml"]


def load(name):
    return yaml.safe_load((DOCKER / name).read_text())


def check_by_schema(*files):
    return subprocess.run([sys.executable, "-m", "check_jsonschema",
                           "--builtin-schema", "vendor.compose-spec", *files],
                          capture_output=True, text=True)


def test_the_files_keep_to_the_specification_and_a_misspelled_key_does_not(tmp_path):
    checked = check_by_schema(*(DOCKER / name for name in FILES))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    wrong = load("compose.yaml")
    wrong["services"]["hearth"]["read_onyl"] = wrong["services"]["hearth"].pop("read_only")
    (tmp_path / "compose.yaml").write_text(yaml.safe_dump(wrong))
    checked = check_by_schema(tmp_path / "compose.yaml")
    assert checked.returncode == 1 and "read_onyl" in checked.stdout


def merge(*files, **env):
    """The files merged as the compose client merges them."""
    return yaml.safe_load(subprocess.run(
        ["docker-compose", *(f"--file={file}" for file in files), "--profile=webui",
         "--profile=observe", "config"],
        capture_output=True, text=True, check=True, env={**os.environ, **env}).stdout)


@pytest.mark.skipif(shutil.which("docker-compose") is None,
                    reason="needs docker-compose (docker/install-deps.sh image)")
def test_the_files_together_are_what_a_machine_with_a_gpu_needs():
    merged = merge(*(DOCKER / name for name in FILES))
    assert set(merged["services"]) == {"hearth", "webui", "prometheus", "grafana"}
    service = merged["services"]["hearth"]
    assert service["image"] == "hearth:cuda" and service["build"]["args"] == {"HEARTH_CUDA": "ON"}
    assert pathlib.Path(service["build"]["context"], service["build"]["dockerfile"]).is_file()
    assert service["deploy"] == {"resources": {"reservations": {"devices": [
        {"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}]}}}
    assert service["ulimits"] == {"memlock": -1}
    # The base file's settings hold with a GPU too.
    assert (service["read_only"] is True and service["cap_drop"] == ["ALL"]
            and service["restart"] == "unless-stopped")


@pytest.mark.skipif(shutil.which("docker-compose") is None,
                    reason="needs docker-compose (docker/install-deps.sh image)")
def test_the_page_names_the_file_that_opens_the_server_to_a_network(tmp_path):
    page = (DOCKER.parent / "docs/shipping.md").read_text()
    (tmp_path / "network.yaml").write_text(re.search(r"```yaml\n(services:.*?)```", page, re.S)[1])
    checked = check_by_schema(tmp_path / "network.yaml")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    merged = merge(DOCKER / "compose.yaml", tmp_path / "network.yaml", LISTEN="0.0.0.0")["services"]["hearth"]
    port, = merged["ports"]  # version 1 of the client prints ports as text, version 2 by name
    assert port in ("0.0.0.0:8080:8080/tcp",
                    {"mode": "ingress", "host_ip": "0.0.0.0", "target": 8080, "published": "8080",
                     "protocol": "tcp"})
    assert merged["environment"]["HEARTH_ALLOWED_HOST"] == "hearth,box.example.org"
    assert merged["environment"]["HEARTH_API_KEY_FILE"] == "/run/secrets/hearth-keys"
    assert merged["environment"]["HEARTH_DRAIN_SECONDS"] == "20" and merged["read_only"] is True


def test_without_a_profile_there_is_hearthd_only():
    assert ([name for name, service in load("compose.yaml")["services"].items() if "profiles" not in service]
            == ["hearth"])


def test_hearthd_is_restarted_when_it_fails_waits_for_the_drain_and_can_write_little():
    service = load("compose.yaml")["services"]["hearth"]
    assert service["restart"] == "unless-stopped"  # hearthd ends when its engine has failed
    assert (int(service["environment"]["HEARTH_DRAIN_SECONDS"])
            < int(service["stop_grace_period"].removesuffix("s")))
    assert service["read_only"] is True and service["cap_drop"] == ["ALL"] and service["tmpfs"] == ["/tmp"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "healthcheck" not in service  # inherited from the image
    assert [volume for volume in service["volumes"] if not volume.endswith(":ro")] == ["cache:/cache"]


def test_services_are_for_this_machine_and_of_a_named_version():
    for name, service in load("compose.yaml")["services"].items():
        # ${LISTEN:-127.0.0.1} is this address unless LISTEN is set.
        assert all(re.match(r"(127\.0\.0\.1|\$\{\w*LISTEN:-127\.0\.0\.1\}):\d+:\d+$", port)
                   for port in service["ports"]), name
        if "build" not in service:
            assert re.fullmatch(r"[\w/-]+:v?\d+\.\d+\.\d+", service["image"]), name


def test_every_service_restarts_reports_its_health_and_keeps_few_logs():
    for name, service in load("compose.yaml")["services"].items():
        assert service["restart"] == "unless-stopped", name
        assert service["logging"]["options"] == {"max-size": "10m", "max-file": "3"}, name
        # The images of hearthd and Open WebUI have health checks of their own.
        assert ("healthcheck" in service) == (name in ("prometheus", "grafana")), name


def test_every_setting_of_the_file_of_settings_is_read_and_none_is_missing():
    told = re.findall(r"^#?([A-Z_]+)=", (DOCKER / ".env").read_text(), re.M)
    assert told[0] == "COMPOSE_PROJECT_NAME"  # the client's own variable
    assert sorted(told[1:]) == sorted(re.findall(r"\$\{(\w+):-", (DOCKER / "compose.yaml").read_text()))


@pytest.mark.skipif(shutil.which("docker-compose") is None,
                    reason="needs docker-compose (docker/install-deps.sh image)")
def test_settings_come_from_the_file_of_settings_and_the_environment_overrules_them(tmp_path):
    shutil.copytree(DOCKER, tmp_path / "docker")
    settings = tmp_path / "docker/.env"
    settings.write_text(settings.read_text().replace("#MODEL", "MODEL"))
    by_file = merge(tmp_path / "docker/compose.yaml")["services"]["hearth"]
    assert by_file["environment"]["HEARTH_MODEL"] == "smollm3-3b"
    volume, _ = by_file["volumes"]  # version 1 of the client prints volumes as text, version 2 by name
    assert (volume == "/srv/models:/models:ro"
            or (volume["source"], volume["target"]) == ("/srv/models", "/models"))
    by_environment = merge(tmp_path / "docker/compose.yaml", MODEL="/models/other.gguf")["services"]["hearth"]
    assert by_environment["environment"]["HEARTH_MODEL"] == "/models/other.gguf"
    assert (merge(DOCKER / "compose.yaml")["services"]["hearth"]["environment"]["HEARTH_MODEL"]
            == "/models/model.gguf")


def test_files_that_services_mount_are_there():
    for name, service in load("compose.yaml")["services"].items():
        for volume in service["volumes"]:
            source, _, target = volume.partition(":")
            if source.startswith("./"):
                assert (DOCKER / source).is_file(), (name, source)
                assert target.endswith(":ro"), (name, target)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs Debian's package prometheus")
def test_prometheus_takes_its_file_and_asks_hearthd():
    checked = subprocess.run(["promtool", "check", "config", DOCKER / "observe/prometheus.yaml"],
                             capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    targets = [target for job in load("observe/prometheus.yaml")["scrape_configs"]
               for entry in job["static_configs"]
               for target in entry["targets"]]
    services = load("compose.yaml")["services"]
    assert targets == ["hearth:8080"] and "hearth" in services
    assert services["hearth"]["environment"]["HEARTH_ALLOWED_HOST"] == "hearth"


def test_grafana_finds_the_dashboard_and_its_numbers():
    grafana = load("compose.yaml")["services"]["grafana"]
    mounted = dict(volume.split(":")[:2] for volume in grafana["volumes"])
    folder = load("observe/grafana-dashboards.yaml")["providers"][0]["options"]["path"]
    assert mounted["./grafana-dashboard.json"] == f"{folder}/grafana-dashboard.json"
    assert (grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
            == mounted["./grafana-dashboard.json"])
    source = load("observe/grafana-source.yaml")["datasources"][0]
    assert (source["type"] == "prometheus" and source["isDefault"]
            and source["url"] == "http://prometheus:9090")
    # The dashboard's panels use the data source chosen in its list, whose default Grafana sets.
    board = json.loads((DOCKER / "grafana-dashboard.json").read_text())
    assert board["templating"]["list"][0] == {"name": "datasource",
                                              "type": "datasource", "query": "prometheus",
                                              "label": "Data source", "current": {}}


def test_the_packages_script_says_how_it_is_used():
    for flag in ("--help", "-h"):
        done = subprocess.run([DOCKER / "install-deps.sh", flag], capture_output=True, text=True)
        assert done.returncode == 0 and done.stderr == ""
        assert "docker/install-deps.sh [--cuda] [build|test|all|image|arm]" in done.stdout
        assert "set -eu" not in done.stdout and not done.stdout.startswith("#")
    wrong = subprocess.run([DOCKER / "install-deps.sh", "everything"], capture_output=True, text=True)
    assert wrong.returncode == 2 and '"everything" is none of' in wrong.stderr and wrong.stdout == ""
