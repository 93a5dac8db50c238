module "eks" {
  source  = "terraform-aws-modules/eks/aws"
  version = "~> 20.0"

  cluster_name    = "dc1"
  cluster_version = "1.33"

  eks_managed_node_group_defaults = {
    labels = { team = "platform" }
  }

  eks_managed_node_groups = {
    cpu = {
      instance_types = ["m7i.2xlarge"]
      min_size       = 3
    }

    # Cards of the search team
    gpu = {
      name           = "gpu-a100"
      instance_types = ["p4d.24xlarge"]
      ami_type       = "AL2023_x86_64_NVIDIA"
      min_size       = 0 # nights
      max_size       = 8
    }
  }
}
