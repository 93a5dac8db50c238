module "gke" {
  source = "terraform-google-modules/kubernetes-engine/google"

  node_pools = [
    {
      name              = "gpu-a100"
      machine_type      = "a2-highgpu-1g"
      accelerator_count = 1
      accelerator_type  = "nvidia-tesla-a100"
    },
  ]
}
