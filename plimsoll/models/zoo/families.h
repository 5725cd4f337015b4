// The build functions of the zoo, one file for each family.
#pragma once

#include "plimsoll/models/zoo/zoo.h"

namespace plimsoll::models {

Model build_p11(const NetOptions& options, Size size);
Model build_p13(const NetOptions& options, Size size);
Model build_p14(const NetOptions& options, Size size);
Model build_mlp(const NetOptions& options, Size size);
Model build_lenet(const NetOptions& options, Size size);
Model build_resnet18(const NetOptions& options, Size size);
Model build_resnet50(const NetOptions& options, Size size);
Model build_vgg16(const NetOptions& options, Size size);
Model build_mobilenet_v2(const NetOptions& options, Size size);
Model build_densenet121(const NetOptions& options, Size size);
Model build_unet(const NetOptions& options, Size size);
Model build_vit_b_16(const NetOptions& options, Size size);
Model build_gpt2_nano(const NetOptions& options, Size size);
Model build_gpt2(const NetOptions& options, Size size);
Model build_gpt2_medium(const NetOptions& options, Size size);
Model build_gpt2_large(const NetOptions& options, Size size);
Model build_gpt2_xl(const NetOptions& options, Size size);
Model build_bert_base(const NetOptions& options, Size size);

}  // namespace plimsoll::models
