// P13: the wide convolutional net.
#include "examples/train_small.h"

int main() { return train_small("p13"); }
