#!/usr/bin/env bash
# The second node joins, and waits until it is ready and Sluice is on it.
set -euo pipefail
cd /srv/sluice

if [ ! -e /etc/kubernetes/kubelet.conf ]; then
  kubeadm join --config test-vm/vagrant/join.yaml
fi

# The first node has the administrator's credentials; what a kubelet may ask is enough to see this node's own pods.
export KUBECONFIG=/etc/kubernetes/kubelet.conf
kubectl wait --for=condition=Ready "node/$(hostname)" --timeout=5m
kubectl --namespace kube-system wait --for=condition=Ready pod --selector k8s-app=sluice \
  --field-selector "spec.nodeName=$(hostname)" --timeout=5m
