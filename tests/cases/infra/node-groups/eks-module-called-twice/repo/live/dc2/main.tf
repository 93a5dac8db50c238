module "gpu" {
  source = "../../modules/gpu"
}
