#!/bin/sh
# Trains and evaluates runs of Table 1, and prints the table. Start it again to continue. To change TRAIN or EVAL, use
# another folder. Build the program first:
#
#	go build -o hvae-mnist ./mnist
#	mnist/table1.sh runs/table1                                       # 27 rows with three seeds, which takes weeks
#	TRAIN='-epochs 30' EVAL='-limit 2000' mnist/table1.sh runs/small "vae hvae-k1-none" "85547 12345"
#
# The arguments are a folder, rows and seeds. To divide the runs among processes, give each process some rows and seeds.
case ${1:--} in -*)
	echo "usage: table1.sh DIR [ROWS [SEEDS]]" >&2
	exit 2
esac
rows=${2:-$(cut -d, -f1 "$(dirname "$(readlink -f "$0")")/published.csv" | sed 1d | uniq)}
[ "$rows" ] || exit 1 # cut has printed the reason

# mnist runs the program in the background, so that this script can end it. A terminal sends SIGINT also to the program.
mnist() {
	"${MNIST:-./hvae-mnist}" "$@" &
	wait $!
}
trap 'kill $!; wait; exit 143' TERM HUP
trap 'wait; exit 130' INT

for seed in ${3:-85547 12345 98765}; do
	for row in $rows; do
		run=$1/$row-$seed
		[ -s "$run/evaluation.json" ] && continue
		mnist train -row "$row" -seed "$seed" -out "$run" -resume $TRAIN &&
			mnist eval -checkpoint "$run" -seed "$seed" -o "$run/evaluation.json" $EVAL
		status=$?
		[ $status -lt 128 ] || exit $status # a signal ended the command
		[ $status -eq 0 ] || failed=1
	done
done
mnist table "$1" && exit ${failed:-0}
