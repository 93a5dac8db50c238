
resource "google_container_node_pool" "cpu" {
  name    = "cpu"
  cluster = google_container_cluster.main.id
}
