module "gke" {
  source     = "terraform-google-modules/kubernetes-engine/google"
  version    = "~> 36.0"
  project_id = var.project_id
  name       = "dc1"
  region     = "europe-west4"
  network    = "main"
  subnetwork = "main"

  ip_range_pods     = "pods"
  ip_range_services = "services"

  node_pools = [
    {
      name         = "gpu-a100"
      machine_type = "a2-highgpu-8g"
      min_count    = 1
      max_count    = 6
    },
  ]

  node_pools_labels = {
    all = {
      team = "search"
    }
  }
}
