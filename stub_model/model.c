/*
 * model: the table of models.
 */
#include "stub_model/model.h"

#include <errno.h>
#include <string.h>

static const struct model_ops *const models[] = {
    &model_stub_ops,
};

int model_open(struct model *model, const struct model_config *config, struct loop *loop,
               struct errmsg *why)
{
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        if (strcmp(models[i]->name, config->name) == 0) {
            *model = (struct model){.ops = models[i], .loop = loop, .config = *config};
            return model->ops->open(model, why);
        }
    }
    return errmsg_set(why, -EINVAL, "unknown model \"%s\"", config->name);
}

void model_close(struct model *model)
{
    model->ops->close(model);
}
