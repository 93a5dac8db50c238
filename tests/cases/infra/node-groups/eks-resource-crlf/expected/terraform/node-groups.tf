resource "aws_eks_node_group" "gpu" {
  cluster_name    = aws_eks_cluster.this.name
  node_group_name = "gpu-a100" # the name that Kubernetes shows
  node_role_arn   = aws_iam_role.node.arn
  subnet_ids      = aws_subnet.private[*].id
  instance_types  = ["p4d.24xlarge"]

  labels = {
    team                    = "search" # who pays
    "nvidia.com/mig.config" = "all-2g.10gb"
  }

  scaling_config {
    desired_size = 2
    max_size     = 8
    min_size     = 0
  }

  taint {
    key    = "nvidia.com/gpu"
    effect = "NO_SCHEDULE"
  }
}

resource "aws_eks_node_group" "cpu" {
  cluster_name    = aws_eks_cluster.this.name
  node_group_name = "cpu"
  node_role_arn   = aws_iam_role.node.arn
  subnet_ids      = aws_subnet.private[*].id

  labels = {
    team = "web"
  }

  scaling_config {
    desired_size = 3
    max_size     = 9
    min_size     = 3
  }
}
