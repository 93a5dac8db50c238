module "gpu_nodes" {
  source  = "terraform-aws-modules/eks/aws//modules/eks-managed-node-group"
  version = "~> 21.0"

  name            = "gpu-a100"
  use_name_prefix = false
  cluster_name    = module.eks.cluster_name
  subnet_ids      = module.vpc.private_subnets
  instance_types  = ["p4d.24xlarge"]
  min_size        = 1
  max_size        = 8
}
