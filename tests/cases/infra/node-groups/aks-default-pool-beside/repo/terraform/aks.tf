resource "azurerm_kubernetes_cluster" "main" {
  name                = "dc1"
  location            = azurerm_resource_group.main.location
  resource_group_name = azurerm_resource_group.main.name
  dns_prefix          = "dc1"

  default_node_pool {
    name       = "gpua100"
    vm_size    = "Standard_ND96asr_v4"
    node_count = 2
  }

  identity {
    type = "SystemAssigned"
  }
}
