import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { installedCompilers, withObjects } from '../tools/packets/instructions.ts'
import { lookUpsByArgument } from '../tools/packets/map-keys.ts'

const LOOK_UPS = `
static void *(*const look_up)(void *map, const void *key) = (void *)1;
static long (*const update)(void *map, const void *key, const void *value, long flags) = (void *)2;
static long (*const draw)(void) = (void *)7;
struct pair { long zero, key; };
int map;
int by_argument(long *key) { return !!look_up(&map, key); }
int by_part_of_argument(struct pair *pair) { return !!look_up(&map, &pair->key); }
int by_kept_argument(long *one, long *two, long *three, long *four, long *five)
{
	draw();
	for (long i = *one + *two + *three + *four; i; i--)
		draw();
	return *one + *two + *three + *four + !!look_up(&map, five);
}
int value_of_argument(long *value) { long key = 1; return update(&map, &key, value, 0); }
int by_copy(long *key) { long own = *key; return !!look_up(&map, &own); }
int by_choice(long *key, int given) { long own = 1; return !!look_up(&map, given ? key : &own); }
int by_value(long *key) { long own = *key; void *value = look_up(&map, &own); return value && look_up(&map, value); }
`

for (const compiler of installedCompilers()) {
  test(`what clang ${compiler.major} makes looks up by no argument of a function, which older kernels refuse`, () => {
    withObjects(compiler, (paths) => {
      for (const path of paths) assert.deepEqual(lookUpsByArgument(path), [], basename(path))
    })
  })

  test(`a look-up by an argument is seen in what clang ${compiler.major} makes, wherever the pointer was kept`, () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-keys-'))
    try {
      const path = join(folder, 'look-ups.o')
      const args = ['-O2', '-g', '-target', 'bpf', '-mcpu=v3', '-x', 'c', '-c', '-', '-o', path]
      const { status, stderr } = spawnSync(compiler.command, args, { input: LOOK_UPS, encoding: 'utf8' })
      assert.equal(status, 0, stderr)
      const expected = [
        'by_argument',
        'by_choice',
        'by_kept_argument',
        'by_part_of_argument',
        'value_of_argument',
      ]
      assert.deepEqual(lookUpsByArgument(path), expected)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
}
