#!/usr/bin/env bash
# What every node of the Vagrantfile's cluster needs: containerd, kubeadm, a bridge for its pods, the image of this clone.
# KUBERNETES, NODE_ADDRESS, POD_SUBNET, OTHER_ADDRESS and OTHER_POD_SUBNET come from there.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive

# From where Kubernetes' packages are installed; a mirror of your own does too.
PACKAGES=${SLUICE_KUBERNETES_PACKAGES:-https://pkgs.k8s.io/core:/stable:/$KUBERNETES/deb/}

apt-get update
apt-get install --yes --no-install-recommends \
  buildah ca-certificates containerd containernetworking-plugins curl gpg iptables
curl -fsSL "${PACKAGES}Release.key" | gpg --dearmor --yes -o /usr/share/keyrings/kubernetes.gpg
echo "deb [signed-by=/usr/share/keyrings/kubernetes.gpg] $PACKAGES /" > /etc/apt/sources.list.d/kubernetes.list
apt-get update
apt-get install --yes --no-install-recommends kubeadm kubectl kubelet

# What kubeadm asks of a node.
swapoff --all
sed -i '/\sswap\s/d' /etc/fstab
echo 'net.ipv4.ip_forward = 1' > /etc/sysctl.d/90-kubernetes.conf
sysctl --quiet --load /etc/sysctl.d/90-kubernetes.conf
echo "KUBELET_EXTRA_ARGS=--node-ip=$NODE_ADDRESS" > /etc/default/kubelet

mkdir -p /etc/containerd
containerd config default |
  sed -e 's/SystemdCgroup = false/SystemdCgroup = true/' -e 's|bin_dir = .*|bin_dir = "/usr/lib/cni"|' \
    > /etc/containerd/config.toml
systemctl restart containerd

# The CNI: a bridge a node, and a route to that of the other one. Pods that leave the cluster are masqueraded.
mkdir -p /etc/cni/net.d
cat > /etc/cni/net.d/10-bridge.conflist << EOF
{
  "cniVersion": "0.4.0",
  "name": "bridge",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "cni0",
      "isGateway": true,
      "ipMasq": false,
      "ipam": {
        "type": "host-local",
        "ranges": [[{ "subnet": "$POD_SUBNET" }]],
        "routes": [{ "dst": "0.0.0.0/0" }]
      }
    },
    { "type": "portmap", "capabilities": { "portMappings": true } }
  ]
}
EOF
cat > /etc/systemd/system/pod-routes.service << EOF
[Unit]
Description=The way to the pods of the other node
After=network-online.target
Wants=network-online.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/sbin/ip route replace $OTHER_POD_SUBNET via $OTHER_ADDRESS
ExecStart=/sbin/iptables -t nat -A POSTROUTING -s $POD_SUBNET ! -d 10.244.0.0/16 -j MASQUERADE

[Install]
WantedBy=multi-user.target
EOF
systemctl daemon-reload
systemctl enable --now pod-routes.service

# The image, into containerd's store for Kubernetes. The tag is the one of deploy/install.yaml.
cd /srv/sluice
image=$(sed -n 's/^ *image: //p' deploy/install.yaml | head -n 1)
buildah build --file deploy/Dockerfile --tag "docker.io/library/$image" .
buildah push "docker.io/library/$image" "docker-archive:/tmp/sluice.tar:docker.io/library/$image"
ctr --namespace k8s.io images import /tmp/sluice.tar
rm /tmp/sluice.tar
