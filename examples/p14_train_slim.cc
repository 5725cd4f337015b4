// P14: the slim form of P13.
#include "examples/train_small.h"

int main() { return train_small("p14"); }
