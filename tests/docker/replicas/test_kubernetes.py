"""docker/kubernetes as kustomize renders it: it is valid for the API, and its parts, hearthd and nginx fit
each other."""
import json
import re
import shutil
import subprocess

import pytest
import yaml

import hearthd
import nginx

FOLDER = hearthd.ROOT / "docker" / "kubernetes"
DOCS = hearthd.ROOT / "docs"


def render(folder):
    """Does what kustomize does with a folder, as far as docker/kubernetes needs it; everything else is an
    error."""
    folder = folder.resolve()
    settings = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert set(settings) <= {"apiVersion", "kind", "namespace", "resources", "configMapGenerator", "images",
                             "patches"}
    objects = []
    for resource in settings.get("resources", []):
        path = folder / resource
        objects += render(path) if path.is_dir() else list(yaml.safe_load_all(path.read_text()))
    for generator in settings.get("configMapGenerator", []):
        files = {name: (folder / name).read_text() for name in generator["files"]}
        if generator.get("behavior") == "merge":
            of_kind(objects, "ConfigMap", generator["name"])[0]["data"].update(files)
        else:
            objects.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": generator["name"]},
                            "data": files})
    for patch in settings.get("patches", []):
        for change in json.loads(patch["patch"]):
            _, above, name = change["path"].split("/")
            assert change["op"] == "remove"
            del of_kind(objects, patch["target"]["kind"], patch["target"]["name"])[0][above][name]
    for one in objects:
        if "namespace" in settings:
            one["metadata"]["namespace"] = settings["namespace"]
    for image in settings.get("images", []):
        for _, pod in pods(objects):
            for container in pod.get("initContainers", []) + pod["containers"]:
                if container["image"] == image["name"]:
                    container["image"] = f"{image['newName']}:{image['newTag']}"
    return objects


@pytest.fixture(scope="module", params=["base", "autoscale"])
def objects(request):
    return render(FOLDER / request.param)


def of_kind(objects, kind, name=None):
    return [one for one in objects if one["kind"] == kind and name in (None, one["metadata"]["name"])]


def pods(objects):
    """(labels, pod spec) of everything that creates pods."""
    return [(one["spec"]["template"]["metadata"]["labels"], one["spec"]["template"]["spec"])
            for one in of_kind(objects, "StatefulSet") + of_kind(objects, "Deployment")]


def hearthd_pod(objects):
    return of_kind(objects, "StatefulSet", "hearth")[0]["spec"]["template"]["spec"]


def selects(selector, labels):
    return all(labels.get(key) == value for key, value in selector.items())


def environment(container):
    return {one["name"]: one["value"] for one in container["env"]}


@pytest.mark.parametrize("name", ["base", "autoscale"])
def test_kubectl_renders_the_same(name):
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    version = subprocess.run(["kubectl", "version", "--client"], capture_output=True, text=True,
                             timeout=hearthd.PATIENCE).stdout
    if not re.search(r"Kustomize Version: v[5-9]", version):
        pytest.skip("this kubectl is older than 1.27")
    found = subprocess.run(["kubectl", "kustomize", FOLDER / name], capture_output=True, text=True,
                           timeout=hearthd.PATIENCE)
    assert found.returncode == 0, found.stderr
    text, n = re.subn(r"\bhearth-nginx-[a-z0-9]{10}\b", "hearth-nginx", found.stdout)
    assert n == 2  # the ConfigMap's own name and the Deployment's reference: a changed file restarts nginx

    def in_order(objects):
        return sorted(objects, key=lambda one: (one["kind"], one["metadata"]["name"]))

    assert in_order(yaml.safe_load_all(text)) == in_order(render(FOLDER / name))


@pytest.mark.parametrize("version", ["1.27", "1.37"])
def test_the_api_takes_every_object(objects, version):
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for one in objects:
        kubernetes_validate.validate(one, version, strict=True)


def test_the_check_finds_a_misspelled_field(objects):
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    broken = json.loads(json.dumps(of_kind(objects, "StatefulSet")[0]))
    broken["spec"]["template"]["spec"]["containers"][0]["livenessprobe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, "1.30", strict=True)


def test_selectors_match_the_labels_of_pods(objects):
    labels = [found for found, _ in pods(objects)]
    # Kubernetes itself names the pods of a StatefulSet.
    replicas = [{**labels[0], "statefulset.kubernetes.io/pod-name": f"hearth-{i}"} for i in range(4)]
    for one in of_kind(objects, "StatefulSet") + of_kind(objects, "Deployment"):
        assert selects(one["spec"]["selector"]["matchLabels"], one["spec"]["template"]["metadata"]["labels"])
    for one in of_kind(objects, "Service"):
        assert any(selects(one["spec"]["selector"], found) for found in labels + replicas), (
            one["metadata"]["name"])
    for one in of_kind(objects, "PodDisruptionBudget"):
        assert sum(selects(one["spec"]["selector"]["matchLabels"], found) for found in labels) == 1
        assert (one["spec"]["maxUnavailable"] == 1
                and one["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow")
    for one in of_kind(objects, "NetworkPolicy"):
        assert sum(selects(one["spec"]["podSelector"]["matchLabels"], found) for found in labels) == 1


def test_port_names_refer_to_existing_ports(objects):
    names = {port["name"] for _, pod in pods(objects) for container in pod["containers"]
             for port in container["ports"]}
    for one in of_kind(objects, "Service"):
        assert {port["targetPort"] for port in one["spec"]["ports"]} <= names
    container, = hearthd_pod(objects)["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": int(environment(container)["HEARTH_PORT"]),
                     "metrics": int(environment(container)["HEARTH_METRICS_PORT"])}
    for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": "http"}


def test_hearthd_gets_only_options_that_it_knows(objects):
    options = (DOCS / "configuration.md").read_text()
    pod = hearthd_pod(objects)
    for container in pod["initContainers"] + pod["containers"]:
        for name in environment(container):
            option = name.removeprefix("HEARTH_").replace("_", "-").lower()
            assert not name.startswith("HEARTH_") or f"--{option}" in options, name
    assert pod["initContainers"][0]["args"] == ["pull", "--if-missing", "$(HEARTH_MODEL)"]
    pull, serve = (environment(container) for container in pod["initContainers"] + pod["containers"])
    assert pull["HEARTH_MODEL"] == serve["HEARTH_MODEL"] and pull["HEARTH_MODELS"] == serve["HEARTH_MODELS"]


def test_hearthd_starts_with_the_environment_of_its_pod(objects, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("a-key\n")
    keys.chmod(0o600)
    settings = environment(hearthd_pod(objects)["containers"][0])
    assert (settings.pop("HEARTH_API_KEY_FILE") == "/etc/hearth/keys"
            and settings.pop("HEARTH_MODEL").startswith("hf:"))
    checked = hearthd.run(["--check-config"], env={**settings, "HEARTH_API_KEY_FILE": str(keys),
                                                   "HEARTH_MODEL": str(hearthd.SMALL_MODEL)})
    assert checked.returncode == 0 and "the configuration is good" in checked.stdout, checked.stderr
    assert "warning" not in checked.stdout


def test_pods_may_do_little(objects):
    for _, pod in pods(objects):
        # A Service called hearth would become HEARTH_PORT=tcp://..., which hearthd ignores with a warning.
        assert pod["enableServiceLinks"] is False and pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod.get("initContainers", []) + pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]}}
            mounts = {mount["name"] for mount in container["volumeMounts"]}
            claims = {"models"} if pod is hearthd_pod(objects) else set()
            assert mounts <= {volume["name"] for volume in pod["volumes"]} | claims


def test_there_is_time_for_the_drain_and_a_gpu_for_each(objects):
    pod = hearthd_pod(objects)
    container, = pod["containers"]
    assert pod["terminationGracePeriodSeconds"] > int(environment(container)["HEARTH_DRAIN_SECONDS"])
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1


def test_nginx_knows_every_replica_and_its_slots(objects):
    configuration, = of_kind(objects, "ConfigMap")
    files = configuration["data"]
    assert set(files) == {"nginx.conf", "hearth.conf", "replicas.conf"}
    # The files are copies of those that are tested elsewhere.
    assert all(files[name] == (nginx.FILES / name).read_text() for name in ("nginx.conf", "hearth.conf"))
    lists = [re.findall(r"server (hearth-\d):8080", block)
             for block in files["replicas.conf"].split("upstream ")[1:]]
    assert lists[0] == lists[1] == sorted(set(lists[0]))
    assert all(of_kind(objects, "Service", name) for name in lists[0])
    stateful, = of_kind(objects, "StatefulSet")
    assert stateful["spec"].get("replicas", 0) <= len(lists[0])
    for scaler in of_kind(objects, "HorizontalPodAutoscaler"):
        assert scaler["spec"]["maxReplicas"] == len(lists[0]) and scaler["spec"]["minReplicas"] >= 2
        assert "replicas" not in stateful["spec"]
    n_nginx = of_kind(objects, "Deployment", "hearth-nginx")[0]["spec"]["replicas"]
    slots = int(environment(hearthd_pod(objects)["containers"][0])["HEARTH_SLOTS"])
    assert {int(n) * n_nginx for n in re.findall(r"max_conns=(\d+)", files["replicas.conf"])} == {slots}


def test_the_two_lists_differ_in_their_servers_only():
    def without_servers(path):
        return re.sub(r"#.*|\n *server .*|\s+$", "", path.read_text(), flags=re.MULTILINE).split()

    assert (without_servers(nginx.FILES / "replicas.conf")
            == without_servers(FOLDER / "base" / "replicas.conf"))


def test_nginx_finds_its_files_where_they_are_mounted(objects):
    _, pod = [found for found in pods(objects) if found[0]["app.kubernetes.io/name"] == "hearth-nginx"][0]
    container, = pod["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert container["command"][2] == mounts["configuration"] + "/nginx.conf"
    written = set(re.findall(r"\s(/[^ ;]+)/[^/ ;]*;", (nginx.FILES / "nginx.conf").read_text()))
    assert written <= {mounts["tmp"], "/dev"}
    configuration = [volume for volume in pod["volumes"] if volume["name"] == "configuration"][0]
    assert of_kind(objects, "ConfigMap", configuration["configMap"]["name"])


def test_the_autoscaler_asks_for_a_metric_that_is_there():
    scaler, = of_kind(render(FOLDER / "autoscale"), "HorizontalPodAutoscaler")
    name = scaler["spec"]["metrics"][0]["pods"]["metric"]["name"]
    assert f"`{name}`" in (DOCS / "running.md").read_text() and f'"{name}"' in (
        hearthd.ROOT / "server" / "metrics" / "metrics_text.cpp").read_text()
    assert scaler["spec"]["scaleTargetRef"]["kind"] == "StatefulSet"
