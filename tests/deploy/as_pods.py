#!/usr/bin/env python3
"""Converts the manifests of deploy/kubernetes to pods for podman: a StatefulSet and a Deployment become their templates,
claimed volumes become empty ones, and both pods share one network. All else is unchanged.

Usage: as_pods.py RENDERED.yaml IMAGE head|agent [KEY_FILE] [NAME] >pod.yaml
"""

import sys

import yaml

rendered, image, which = sys.argv[1:4]
documents = [each for each in yaml.safe_load_all(open(rendered, encoding="utf-8")) if each]


def of(kind, name):
    return next(each for each in documents if each["kind"] == kind and each["metadata"]["name"] == name)


def pod_of(owner, name):
    spec = owner["spec"]["template"]["spec"]
    spec["hostNetwork"] = True
    spec["restartPolicy"] = "Never"
    for claim in owner["spec"].get("volumeClaimTemplates", []):
        spec["volumes"].append({"name": claim["metadata"]["name"], "emptyDir": {}})
    for container in spec["containers"] + spec.get("initContainers", []):
        container["image"], container["imagePullPolicy"] = image, "Never"
        for each in container.get("env", []):  # podman knows no fieldRef
            if "valueFrom" in each:
                del each["valueFrom"]
                each["value"] = "127.0.0.1"
        container["args"] = [each.replace("$(POD_IP)", "127.0.0.1") for each in container.get("args", [])]
        container.pop("ports", None)  # which say something to other networks alone
        container.get("resources", {}).clear()  # of nested control groups not all machines have the controllers
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": owner["spec"]["template"]["metadata"]["labels"]},
            "spec": spec}


if which == "head":
    made = [pod_of(of("StatefulSet", "mobula-head"), "mobula-head-0")]
else:
    with open(sys.argv[4], encoding="utf-8") as file:
        key = file.read()
    pod = pod_of(of("Deployment", "mobula-agent"), "mobula-agent")
    # podman 4.3 mounts the base64 text of a secret unchanged.
    for volume in pod["spec"]["volumes"]:
        if "secret" in volume:
            volume["configMap"] = {"name": volume.pop("secret")["secretName"]}
    made = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mobula-key"}, "data": {"cluster.key": key}}, pod]
print(yaml.safe_dump_all(made))
