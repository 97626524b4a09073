"""Everyday English words that mean nearly the same, so that a question finds an answer in other words.

`VERB_FORMS` are the forms of irregular verbs, which no stemmer brings together. `SYNONYMS` are groups whose
words stand for each other. `KINDS` lead one way, from the word of a question to what an answer may name: a
question about a pet finds a message about a dog. They are general on purpose; a missing word only means that
there is no help from the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from autonomy_ctx.language.stems import stem_term

# fmt: off
VERB_FORMS = """
be was were been; become became; begin began begun; bend bent; bite bit bitten; blow blew blown; break broke
broken; bring brought; build built; burn burnt; buy bought; catch caught; choose chose chosen; come came;
cost costs; cut cutting; deal dealt; dig dug; draw drew drawn; dream dreamt; drink drank drunk; drive drove
driven; eat ate eaten; fall fell fallen; feed fed; feel felt; fight fought; find found; fly flew flown;
forget forgot forgotten; forgive forgave forgiven; freeze froze frozen; get got gotten; give gave given; go
went gone; grow grew grown; hang hung; hear heard; hide hid hidden; hit hitting; hold held; hurt hurting;
keep kept; know knew known; lay laid; lead led; learn learnt; leave left; lend lent; let letting; lie lay
lain; light lit; lose lost; make made; mean meant; meet met; pay paid; put putting; quit quitting; read
reading; ride rode ridden; ring rang rung; rise rose risen; run ran; say said; see saw seen; sell sold; send
sent; set setting; sew sewn; shake shook shaken; shine shone; shoot shot; show shown; shrink shrank shrunk;
shut shutting; sing sang sung; sink sank sunk; sit sat; sleep slept; smell smelt; speak spoke spoken; spend
spent; spill spilt; split splitting; spread spreading; stand stood; steal stole stolen; stick stuck; sting
stung; strike struck; swear swore sworn; sweep swept; swim swam swum; take took taken; teach taught; tear
tore torn; tell told; think thought; throw threw thrown; understand understood; wake woke woken; wear wore
worn; weep wept; win won; wind wound; withdraw withdrew; write wrote written
"""
SYNONYMS = """
job work profession occupation career employment; company firm business employer; boss manager supervisor
chief; colleague coworker teammate; salary wage pay income; hire employ recruit; fire dismiss sack; quit
resign notice leave; retire retirement pension; promote promotion raise; buy purchase order; sell sale sold;
cost price expense fee charge; cheap inexpensive; money cash fund; borrow loan lend; rent lease landlord
tenant; budget spend spending; refund compensation reimburse; invoice bill; tax duty; donate donation
charity; prize award win winner medal; discount rebate; home house flat apartment; live reside residence;
move relocate relocation; room bedroom; kitchen cook cooking; garden yard plot; furniture table chair;
counter countertop worktop; stove cooker hob oven; fridge refrigerator; paint varnish colour color shade;
repair fix mend; renovate renovation redo; builder contractor; electrician electric wiring; leak leaky drip;
build construct building construction; key lock; husband wife spouse partner; boyfriend girlfriend partner;
marry married marriage wedding; engage engaged engagement propose proposal fiancé fiancée; divorce separate
separation split; mother mum mom mommy; father dad daddy; parent parents; grandmother grandma granny;
grandfather grandpa granddad; child kid children kids; baby newborn infant; pregnant expecting pregnancy
due; birth born; friend friendship buddy; relative cousin family; name call named called; birthday
anniversary; guest visitor; neighbour neighbor; ill sick illness disease unwell; hospital clinic ward;
doctor physician; medicine medication drug pill tablet prescribe prescription; injure injury hurt wound;
surgery operation operate operated; pain ache sore; allergy allergic; weigh weight heavy kilos; exercise
workout training train fitness; diet eat food; sleep asleep awake wake; health healthy; dentist tooth teeth;
vet veterinarian; dog puppy; cat kitten; pet animal; adopt adoption rescue; bee hive beekeeper; swallow eat
ate; car vehicle; bicycle bike cycle; train railway; plane flight fly; trip travel journey holiday vacation;
drive driving driver; license licence permit; stolen steal theft thief; arrive arrival come; depart
departure leave; return back; luggage suitcase; hotel hostel guesthouse; abroad overseas foreign country;
visit visited; ship boat vessel; study studies student; school university college course class; teach
teacher tutor instructor; exam examination test; lesson lecture; learn learning; thesis dissertation
doctorate; research researcher; grade mark result; scholarship grant stipend; book novel manuscript; write
writing writer author; read reading; magazine newspaper press; publish publication; film movie; picture
photo photograph image; music song; perform performance concert; paint painting artist; draw drawing; sport
sports; race marathon run running; swim swimming pool; team club; competition contest tournament; hobby
pastime; game play; choir sing singing; begin start started; end finish finished done complete; stop cease
quit; delay postpone postponed late later; cancel cancelled; decide decision choose choice chose pick;
change switch replace swap; plan planning planned; agree agreement settle settled; big large huge; small
little tiny; fast quick speed; new newest latest; old older former previous earlier; first initial; last
final; beautiful pretty lovely; happy glad pleased; sad unhappy; angry upset annoyed; afraid scared fear
nervous worry worried; problem trouble issue; error bug fault mistake wrong; break broken damage damaged
destroyed; accident crash; flood flooded; reason cause because why; help assist support helper; advice
recommend recommendation suggest suggestion; refuse reject rejected decline declined turned; fail failed
failure; succeed success passed; find discover discovered discovery; search look looking; receive get got;
give gift present; send ship deliver delivery shipping parcel; email mail message; phone telephone call;
meet meeting appointment; speak talk speech; tell told; ask question; answer reply; computer laptop; server
machine host; database postgres sql; deploy deployment release; outage down downtime offline; backup dump
copy; password secret credential; version upgrade migrate migration; code program software; developer
programmer engineer; customer client user; certificate cert; alarm alert alarms; open opened opening; close
closed shut; deadline due until; date day; weekday day; week weekly; month monthly; year yearly annual;
morning breakfast; evening night; weekend saturday sunday; now currently nowadays; spouse married; eat ate
meal dinner lunch; drink beverage; vegetarian vegan meat; restaurant cafe; bake baker bakery bread; cook
chef; recipe dish; harvest crop yield; plant planted seedling; tree trees; soil ground earth; vegetable
vegetables; police officer; court judge trial; lawyer law legal; insurance insured insure; contract sign
signed; company founded found; shop store; storage store stock warehouse; address web domain website; emblem
logo; goods products; box boxes package packaging; glass bottle; steal robbed burglary; die died death dead;
fall slip slipped fell; burn burned; fire firing; rain storm snow weather; hot heat; cold freeze frozen
froze frost; child son daughter; brother sister sibling; twin twins; uncle aunt; niece nephew
"""
KINDS = """
pet: dog cat rabbit hamster parrot horse puppy kitten fish bird turtle; animal: dog cat horse cow goat sheep
bird bee fox chicken fish snake; instrument: cello piano guitar violin flute trumpet drum trombone saxophone
clarinet organ harp ukulele banjo bass; vehicle: car van truck bike bicycle motorcycle scooter bus; sport:
run swim tennis football soccer basketball yoga climb ski cycling boxing golf hockey marathon gym surf row
hike; hobby: paint pottery choir knit garden photography chess dance guitar bake climb fish hike sew read
collect cook; job: nurse teacher engineer baker lawyer doctor manager designer driver waiter accountant chef
clerk; profession: nurse teacher engineer baker lawyer doctor designer accountant chef carpenter
electrician; language: french spanish german italian english japanese chinese portuguese arabic russian
korean polish dutch; colour: red blue green yellow white black grey purple pink orange brown cream; color:
red blue green yellow white black gray purple pink orange brown; shade: white cream red blue green grey;
child: son daughter baby twin boy girl kid; family: mother father sister brother son daughter wife husband
cousin uncle aunt grandmother; sibling: sister brother; parent: mother father mum dad; relative: uncle aunt
cousin niece nephew grandmother; meal: breakfast lunch dinner supper; food: bread rice cheese meat fish soup
pizza cake fruit vegetable; snack: cheese chocolate crisps nuts cookie cake; drink: coffee tea wine beer
juice water; injury: wrist knee ankle shoulder leg arm broke sprain burn calf; bone: wrist leg arm ankle rib
finger collarbone; illness: stroke cancer flu asthma diabetes infection fever cold; health: asthma allergy
blood pressure diabetes; medicine: milligrams pill tablet drops; relationship: boyfriend girlfriend husband
wife single married divorced dating; appliance: fridge dishwasher oven microwave hob washing machine
toaster; furniture: sofa table chair bed shelf; weekday: monday tuesday wednesday thursday friday saturday
sunday; month: january february march april june july august september october november december; season:
spring summer autumn winter; disaster: earthquake flood storm fire hurricane; celebration: party wedding
birthday anniversary; event: party wedding concert festival conference race; present: gift gave book ring;
crop: potatoes beans tomatoes apples corn; plant: tomato potato bean rose tree flower; fruit: apple plum
lemon strawberry cherry orange; country: switzerland germany france italy spain portugal japan china canada
australia austria netherlands; software: excel postgres python app; technology: kubernetes docker redis;
material: wood oak stone plastic glass metal steel paper leather; art: painting pottery sculpture drawing;
religion: church mosque synagogue temple; subject: law history physics biology mathematics medicine;
education: degree university school college master; vacation: beach mountains island camping hotel; workman:
carpenter painter plumber electrician; payment: charge invoice card bank transfer; body: arm leg back knee
shoulder hand eye foot head; clothes: coat shirt dress shoes trousers scarf
"""
# fmt: on


_NONE: Mapping[str, float] = {}
FORM_WEIGHT, SYNONYM_WEIGHT, KIND_WEIGHT = 1.0, 0.5, 0.4


def related_stems(stem: str) -> Mapping[str, float]:
    """The stems that may stand for this one in an answer, each with the part of its weight they have."""
    return _table().get(stem, _NONE)


@cache
def _table() -> dict[str, dict[str, float]]:
    table: dict[str, dict[str, float]] = {}

    def relate(word: str, other: str, weight: float) -> None:
        if word != other:
            known = table.setdefault(word, {})
            known[other] = max(weight, known.get(other, 0.0))

    for groups, weight in ((VERB_FORMS, FORM_WEIGHT), (SYNONYMS, SYNONYM_WEIGHT)):
        for group in groups.split(";"):
            stems = [stem_term(word) for word in group.split()]
            for word in stems:
                for other in stems:
                    relate(word, other, weight)
    for line in KINDS.split(";"):
        kind, _, members = line.partition(":")
        for member in members.split():
            relate(stem_term(kind.strip()), stem_term(member), KIND_WEIGHT)
    return table
