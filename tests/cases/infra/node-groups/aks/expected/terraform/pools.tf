resource "azurerm_kubernetes_cluster_node_pool" "gpu" {
  name                  = "gpua100"
  kubernetes_cluster_id = azurerm_kubernetes_cluster.main.id
  vm_size               = "Standard_ND96asr_v4"
  auto_scaling_enabled  = true
  min_count             = 0
  max_count             = 4
  node_labels           = { team = "search", "nvidia.com/mig.config" = "all-2g.10gb" }
  node_taints           = ["sku=gpu:NoSchedule"]
}
