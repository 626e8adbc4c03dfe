#!/usr/bin/env bash
# The first node: kubeadm without kube-proxy, then Sluice. Prints the state at the end; fails when Sluice does not get ready.
set -euo pipefail
export KUBECONFIG=/etc/kubernetes/admin.conf
cd /srv/sluice

if [ ! -e "$KUBECONFIG" ]; then
  kubeadm init --config test-vm/vagrant/init.yaml --skip-phases=addon/kube-proxy
fi
mkdir -p /root/.kube /home/vagrant/.kube
cp "$KUBECONFIG" /root/.kube/config
install -o vagrant -g vagrant -m 600 "$KUBECONFIG" /home/vagrant/.kube/config

# The ClusterIP of the API server is a service, and services are what Sluice is to provide: it gets the address itself.
kubectl --namespace kube-system create configmap sluice-api-server --dry-run=client --output yaml \
  --from-literal=KUBERNETES_SERVICE_HOST=192.168.56.10 --from-literal=KUBERNETES_SERVICE_PORT=6443 |
  kubectl apply --filename -
kubectl apply --filename deploy/install.yaml
kubectl --namespace kube-system rollout status daemonset/sluice --timeout=5m
kubectl get nodes --output wide
