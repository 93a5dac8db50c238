terraform {
  source = "tfr:///terraform-aws-modules/eks/aws?version=20.24.0"
}

inputs = {
  cluster_name = "dc1"
  eks_managed_node_groups = {
    gpu-a100 = {
      instance_types = ["p4d.24xlarge"]
      labels = {
        pool = "gpu-a100"
      }
    }
  }
}
