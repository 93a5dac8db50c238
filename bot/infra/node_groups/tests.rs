use std::path::Path;

use serde_json::json;

use crate::infra::tests::{plan, scope, tree};
use crate::infra::{Snapshot, edit};

/// What is left to people in a case, with its text.
fn by_hand(case: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/infra/node-groups").join(case);
    let snapshot = Snapshot { files: tree(&folder.join("repo")), ..Snapshot::default() };
    let wanted = serde_json::from_slice(&std::fs::read(folder.join("plan.json")).unwrap()).unwrap();
    let set = edit(&snapshot, &scope(&json!({})), &plan(&wanted));
    set.manual.iter().map(|change| change.text.clone()).collect()
}

#[test]
fn a_second_nodepool_is_the_first_one_with_another_name_and_the_label() {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/infra/node-groups/karpenter-beside/repo");
    let first = std::fs::read_to_string(folder.join("karpenter/gpu.yaml")).unwrap();
    let expected = first
        .replace("# GPU nodes of the search team\n", "---\n")
        .replace("name: gpu-a100", "name: gpu-a100-mig")
        .replace("# who pays\n", "# who pays\n        nvidia.com/mig.config: all-2g.10gb\n");
    assert_eq!(by_hand("karpenter-beside"), expected);
}

#[test]
fn a_second_group_in_terraform_is_a_copy_under_another_name() {
    insta::assert_snapshot!(by_hand("aks-beside"), @r#"
    resource "azurerm_kubernetes_cluster_node_pool" "gpu_mig" {
      name                  = "gpua100mig"
      kubernetes_cluster_id = azurerm_kubernetes_cluster.main.id
      vm_size               = "Standard_ND96asr_v4"
      auto_scaling_enabled  = true
      min_count             = 0
      max_count             = 4
      node_labels           = { team = "search", "nvidia.com/mig.config" = "all-2g.10gb" }
      node_taints           = ["sku=gpu:NoSchedule"]
    }
    "#);
    insta::assert_snapshot!(by_hand("eks-module-beside"), @r#"
    # beside the group at line 15
    gpu-a100-mig = {
      name           = "gpu-a100-mig"
      instance_types = ["p4d.24xlarge"]
      ami_type       = "AL2023_x86_64_NVIDIA"
      min_size       = 0 # nights
      max_size       = 8

      labels = {
        team = "search"

        "nvidia.com/mig.config" = "all-2g.10gb"
      }
    }
    "#);
    let eks = by_hand("eks-beside");
    assert!(eks.starts_with("resource \"aws_eks_node_group\" \"gpu_mig\" {"), "{eks}");
    assert!(eks.contains("node_group_name = \"gpu-a100-mig\" # the name"), "{eks}");
}

#[test]
fn what_is_refused_comes_with_the_text_of_its_own_language() {
    insta::assert_snapshot!(by_hand("eks-ignore-changes"), @r#"
    labels = {
      "nvidia.com/mig.config" = "all-2g.10gb"
    }
    "#);
    insta::assert_snapshot!(by_hand("cluster-api-machine-pool"), @r"
    # the kubelet of these machines must be started with
    --node-labels=nvidia.com/mig.config=all-2g.10gb
    ");
    insta::assert_snapshot!(by_hand("cluster-api-beside"), @r#"
    # copies of MachineDeployment `dc1-gpu` and of its KubeadmConfigTemplate, both named `dc1-gpu-mig`; in the template
    kubeletExtraArgs:
      node-labels: "nvidia.com/mig.config=all-2g.10gb"
    "#);
}
