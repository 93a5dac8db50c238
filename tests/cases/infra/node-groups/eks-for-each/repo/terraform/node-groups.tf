resource "aws_eks_node_group" "gpu" {
  for_each = toset(["a100", "h100"])

  cluster_name    = aws_eks_cluster.this.name
  node_group_name = "gpu-${each.key}"
  node_role_arn   = aws_iam_role.node.arn
  subnet_ids      = aws_subnet.private[*].id

  labels = {
    team = "search"
  }

  scaling_config {
    desired_size = 2
    max_size     = 8
    min_size     = 1
  }
}
