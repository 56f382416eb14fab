#include "rules/load.h"
void wr_lint(struct wr_load *load)
{
	(void)load;
}
