/* Prints the sizes of an embedded net. */
#include <stdio.h>

#include "a model.ncnn.mem.h"

int main(void)
{
    printf("%zu %zu\n", sizeof(a_model_ncnn_param_bin), sizeof(a_model_ncnn_bin));
    return a_model_ncnn_param_bin[0] == 0xdd ? 0 : 1;
}
