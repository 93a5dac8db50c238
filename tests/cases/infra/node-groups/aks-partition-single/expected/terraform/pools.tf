resource "azurerm_kubernetes_cluster_node_pool" "gpu" {
  name                  = "gpua100"
  kubernetes_cluster_id = azurerm_kubernetes_cluster.main.id
  vm_size               = "Standard_NC24ads_A100_v4"
  auto_scaling_enabled  = true
  min_count             = 0
  max_count             = 4
  node_labels           = { team = "search" }
  node_taints           = ["sku=gpu:NoSchedule"] # all GPU pools

  upgrade_settings {
    max_surge = "10%"
  }
}

resource "azurerm_kubernetes_cluster_node_pool" "gpu_mig_2g" {
  name                  = "gpua100mig2g"
  kubernetes_cluster_id = azurerm_kubernetes_cluster.main.id
  vm_size               = "Standard_NC24ads_A100_v4"
  auto_scaling_enabled  = true
  min_count             = 0
  max_count             = 4
  node_labels           = { team = "search" }
  node_taints           = ["sku=gpu:NoSchedule"] # all GPU pools
  gpu_instance          = "MIG2g"

  upgrade_settings {
    max_surge = "10%"
  }
}
