resource "azurerm_kubernetes_cluster" "main" {
  name = "main"

  default_node_pool {
    name    = "gpua100"
    vm_size = "Standard_NC24ads_A100_v4"
  }
}
